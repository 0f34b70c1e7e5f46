// The body of POST /v1/chat/completions as plain data, with messages in the form that chat templates expect.
//
// Parsed on the HTTP thread. Unsupported inputs, such as images, are refused, not ignored.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "server/api/request/generation_fields.h"
#include "server/api/request/tool_choice.h"

namespace hearth {

struct ChatRequest {
  GenerationFields generation;
  /// The request's messages. Content parts are joined to one string, and the role developer is replaced by
  /// system.
  Json messages;
  ToolChoice choice;                  // the tools, and which of them may be called
  std::optional<int64_t> max_tokens;  // at least 1; absent: up to the end of the context
  bool logprobs = false;
  int top_logprobs = 0;               // 0 .. 20
  bool add_generation_prompt = true;  // extension; if false, the prompt does not open an assistant turn
  // Extension; if true, the answer continues the last message, whose role is assistant.
  bool continue_last = false;
  Json template_arguments = Json::object();  // extension chat_template_kwargs: variables of the template
  // Maximum number of tokens of thinking; -1: no limit; absent: the effort's, or the server's.
  std::optional<int> thinking_budget = {};
};

/// Reads the reasoning effort from the member `name`. Sets the template variable reasoning_effort, which some
/// templates use. "none" also turns thinking off if the template has a switch for it. Variables that are
/// already in `arguments` stay. Throws RequestError.
void read_reasoning_effort(const RequestFields& fields, std::string_view name, Json& arguments);

/// body: a JSON object. Throws RequestError.
ChatRequest parse_chat_request(const Json& body, const RequestLimits& limits);

}  // namespace hearth
