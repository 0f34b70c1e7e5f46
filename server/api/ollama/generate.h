// POST /api/generate of Ollama's API: answers one prompt, with the chat template unless `raw` is set.
#pragma once

#include <string>
#include <string_view>

#include "server/api/api_context.h"
#include "server/api/openai/chat_request.h"
#include "server/http/http_types.h"
#include "server/http/response_writer.h"
#include "server/json/json.h"

namespace hearth {

struct OllamaGenerateRequest {
  ChatRequest chat;  // its messages are the system text, if any, and the prompt
  std::string prompt;
  std::string suffix;  // if not empty: the answer is the text between the prompt and the suffix
  bool raw = false;    // do not use the chat template; true if there is a suffix
};

/// Throws RequestError.
OllamaGenerateRequest parse_ollama_generate(const Json& body, const RequestLimits& limits);

void ollama_generate(const ApiContext& api, const HttpRequest& request, std::string_view argument,
                     ResponseWriter& writer);

}  // namespace hearth
