// The parameters shared by /api/chat and /api/generate: options, format, think, log-probabilities.
//
// Called by the handlers on the HTTP thread; the results are plain data.
#pragma once

#include <string>

#include "server/api/openai/chat_request.h"
#include "server/json/json.h"

namespace hearth {

class ChatDialect;

/// Reads a chat request, except messages and tools; the answer streams by default. Missing options get
/// Ollama's defaults, not OpenAI's. Throws RequestError. docs/api.md lists the parameters that are accepted
/// but have no effect: those that tell Ollama how to load a model.
ChatRequest read_ollama_fields(const RequestFields& fields, const RequestLimits& limits);

/// Throws RequestError if `think` requests thinking from a model that cannot think. model: the model's name.
void check_thinking(const ChatDialect& dialect, const RequestFields& fields, const std::string& model);

}  // namespace hearth
