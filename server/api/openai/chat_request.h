// A POST /v1/chat/completions body as plain data, with messages in the form that chat templates expect.
//
// Parsed on the HTTP thread. Unsupported input (images, audio) is refused, not ignored.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "server/api/request/generation_fields.h"
#include "server/api/request/tool_choice.h"

namespace hearth {

struct ChatRequest {
  GenerationFields generation;
  /// The messages as sent, except that content parts are joined to one string and the role developer becomes
  /// system.
  Json messages;
  ToolChoice choice;                  // the tools, and which of them may be called
  std::optional<int64_t> max_tokens;  // >= 1; absent: up to the end of the context
  bool logprobs = false;
  int top_logprobs = 0;                      // 0 .. 20
  bool add_generation_prompt = true;         // extension; false: the prompt does not open an assistant turn
  bool continue_last = false;                // extension: the answer continues the last message, which is the
                                             // assistant's
  Json template_arguments = Json::object();  // extension chat_template_kwargs: variables for the template
};

/// Reads the reasoning effort from the member `name`. Sets the template variable reasoning_effort, which some
/// models support; "none" also turns thinking off if the template has a switch for it. Keeps variables
/// already in `arguments`. Throws RequestError.
void read_reasoning_effort(const RequestFields& fields, std::string_view name, Json& arguments);

/// Parses the body's JSON object. Throws RequestError.
ChatRequest parse_chat_request(const Json& body, const RequestLimits& limits);

}  // namespace hearth
