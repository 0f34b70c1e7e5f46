// The parameters that /api/chat and /api/generate share: options, format, think, log-probabilities.
//
// Called by the handlers on the HTTP thread; plain data afterwards.
#pragma once

#include <string>

#include "server/api/openai/chat_request.h"
#include "server/json/json.h"

namespace hearth {

class ChatDialect;

/// A chat request without messages and tools, which streams unless it says otherwise. Options that are left out have Ollama's
/// values, not OpenAI's. Throws RequestError. docs/api.md lists what is taken without effect: what says how Ollama is to load
/// a model.
ChatRequest read_ollama_fields(const RequestFields& fields, const RequestLimits& limits);

/// Throws RequestError if `think` demands that a model thinks which does not. model: its name.
void check_thinking(const ChatDialect& dialect, const RequestFields& fields, const std::string& model);

}  // namespace hearth
