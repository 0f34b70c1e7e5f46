// Reads the parameters of chat completions according to OpenAI's specification.
#include "server/api/openai/chat_request.h"

#include <algorithm>
#include <limits>
#include <string>
#include <string_view>

#include "server/api/request/thinking_switch.h"
#include "server/api/request/unsupported_fields.h"
#include "server/chat/messages.h"
#include "server/json/api_error.h"

namespace hearth {
namespace {

constexpr int kMaxTopLogprobs = 20;

/// Reads continue_final_message, an extension of vLLM, and "prefix": true in the last message, an extension
/// of DeepSeek.
bool read_continuation(const RequestFields& fields, Json& messages, bool& add_generation_prompt) {
  const bool asked = fields.boolean("continue_final_message").value_or(false);
  if (asked && fields.boolean("add_generation_prompt").value_or(false)) {
    refuse_param(
        "continue_final_message",
        "'continue_final_message' and 'add_generation_prompt' exclude each other; send one of them.");
  }
  Json& last = messages.back();
  const std::string place = "messages[" + std::to_string(messages.size() - 1) + "].";
  const bool prefix = RequestFields(last, place).boolean("prefix").value_or(false);
  last.erase("prefix");
  if (!asked && !prefix) return false;
  if (last["role"] != "assistant" || !last["content"].is_string() || last["content"] == "") {
    refuse_param(
        asked ? "continue_final_message" : place + "prefix",
        "The last message must be an assistant's with some text, so that the answer can continue it.");
  }
  add_generation_prompt = false;
  return true;
}

void check_modalities(const RequestFields& fields) {
  const Json* modalities = fields.array("modalities");
  if (modalities == nullptr) return;
  for (const Json& item : *modalities) {
    if (item != "text")
      refuse_param("modalities", "'modalities' must be ['text']: the model writes text only.");
  }
}

/// Reads `reasoning`, an extension of OpenRouter: {"effort": "low", "enabled": true, "max_tokens": 1024}.
void read_reasoning(const RequestFields& fields, ChatRequest& out) {
  const Json* reasoning = fields.object("reasoning");
  if (reasoning == nullptr) return;
  static constexpr RefusedField kRefused[] = {
      {"exclude", "[false]", "thinking is separate, in 'reasoning_content'; ignore it there"}};
  const RequestFields inner(*reasoning, fields.param("reasoning."));
  refuse_fields(inner, kRefused);
  read_thinking_budget(inner, "max_tokens", out.thinking_budget);
  if (const std::optional<bool> on = inner.boolean("enabled")) set_thinking(out.template_arguments, *on);
  read_reasoning_effort(inner, "effort", out.template_arguments);
}

}  // namespace

void read_reasoning_effort(const RequestFields& fields, std::string_view name, Json& arguments) {
  const std::optional<std::string> effort =
      fields.word(name, {"none", "minimal", "low", "medium", "high", "xhigh", "max"});
  if (!effort) return;
  if (!arguments.contains("reasoning_effort")) arguments["reasoning_effort"] = *effort;
  if (*effort == "none") set_thinking(arguments, false);
}

ChatRequest parse_chat_request(const Json& body, const RequestLimits& limits) {
  const RequestFields fields(body);
  check_foreign_fields(fields, true);
  ChatRequest request;
  request.generation = read_generation_fields(fields, limits);
  check_copies(request.generation, static_cast<size_t>(request.generation.n));
  const Json* messages = fields.find("messages");
  if (messages == nullptr) refuse_param("messages", "'messages' is missing; send an array of messages.");
  request.messages = read_messages(*messages);
  request.choice = read_tool_choice(fields);
  check_modalities(fields);
  constexpr int64_t kMax = std::numeric_limits<int64_t>::max();
  // If a request has several of these members, the one that is last in this list is used.
  for (const char* name : {"n_predict", "max_tokens", "max_completion_tokens"}) {
    const std::optional<int64_t> n = fields.integer(name, -1, kMax);
    if (!n) continue;
    if (*n == 0)
      refuse_param(name, std::string("'").append(name).append(
                             "' must be at least 1, or -1 for all of the remaining context."));
    request.max_tokens = *n < 0 ? std::nullopt : n;
  }
  request.logprobs = fields.boolean("logprobs").value_or(false);
  const std::optional<int64_t> top = fields.integer("top_logprobs", 0, kMaxTopLogprobs);
  if (top.value_or(0) > 0 && !request.logprobs) {
    refuse_param("top_logprobs", "'top_logprobs' is only allowed when 'logprobs' is true.");
  }
  request.top_logprobs = static_cast<int>(top.value_or(0));
  request.add_generation_prompt = fields.boolean("add_generation_prompt").value_or(true);
  if (const Json* arguments = fields.object("chat_template_kwargs")) request.template_arguments = *arguments;
  read_reasoning_effort(fields, "reasoning_effort", request.template_arguments);
  read_reasoning(fields, request);
  read_thinking_switch(fields, request.template_arguments, request.thinking_budget);
  request.continue_last = read_continuation(fields, request.messages, request.add_generation_prompt);
  return request;
}

}  // namespace hearth
