// The parameters shared by /api/chat and /api/generate: options, format, think, log-probabilities.
//
// Called by the handlers on the HTTP thread; plain data afterward.
#pragma once

#include <string>

#include "server/api/openai/chat_request.h"
#include "server/json/json.h"

namespace hearth {

class ChatDialect;

/// Reads a chat request without messages and tools; it streams by default. Missing options get Ollama's
/// defaults, not OpenAI's. Throws RequestError. docs/api.md lists parameters accepted without effect: those
/// that tell Ollama how to load a model.
ChatRequest read_ollama_fields(const RequestFields& fields, const RequestLimits& limits);

/// Throws RequestError if `think` asks a model to think that does not. model: its name.
void check_thinking(const ChatDialect& dialect, const RequestFields& fields, const std::string& model);

}  // namespace hearth
