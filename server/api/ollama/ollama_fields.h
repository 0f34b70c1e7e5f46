// Parameters that /api/chat and /api/generate share: options, format, think, log-probabilities.
//
// Called by these endpoints' handlers on the HTTP thread. The results are plain data.
#pragma once

#include <string>

#include "server/api/openai/chat_request.h"
#include "server/json/json.h"

namespace hearth {

class ChatDialect;

/// Reads a chat request, except messages and tools. An answer is a stream unless the request sets `stream` to
/// false. Absent options get Ollama's defaults, not OpenAI's. Some parameters that tell Ollama how to load a
/// model are accepted but have no effect; docs/api.md lists them. Throws RequestError.
ChatRequest read_ollama_fields(const RequestFields& fields, const RequestLimits& limits);

/// Throws RequestError if `think` asks for thinking and the model cannot think. model: the model's name.
void check_thinking(const ChatDialect& dialect, const RequestFields& fields, const std::string& model);

}  // namespace hearth
