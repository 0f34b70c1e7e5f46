// A POST /v1/chat/completions body as plain data, with messages in the shape that chat templates expect.
//
// Parsed on the HTTP thread. What the server cannot do is refused, not ignored: images and audio.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "server/api/request/generation_fields.h"
#include "server/api/request/tool_choice.h"

namespace hearth {

struct ChatRequest {
  GenerationFields generation;
  /// As the client sent them, but with content parts joined to one string and with role system for developer.
  Json messages;
  ToolChoice choice;                  // the tools, and which may be called
  std::optional<int64_t> max_tokens;  // >= 1; absent: the rest of the context
  bool logprobs = false;
  int top_logprobs = 0;               // 0 .. 20
  bool add_generation_prompt = true;  // extension: false opens no assistant's turn
  bool continue_last = false;         // extension: the answer goes on with the last message, an assistant's
  Json template_arguments = Json::object();  // extension chat_template_kwargs: variables for the template
};

/// Reads how much the model should think from the member `name`. It becomes the template's variable reasoning_effort, where
/// models that know it look for it; "none" also turns thinking off where a template has a switch for that. What `arguments`
/// has already stays. Throws RequestError.
void read_reasoning_effort(const RequestFields& fields, std::string_view name, Json& arguments);

/// Parses the body's JSON object. Throws RequestError.
ChatRequest parse_chat_request(const Json& body, const RequestLimits& limits);

}  // namespace hearth
