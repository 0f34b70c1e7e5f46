// Reads the parameters that Anthropic's documentation defines, and this server's extensions for sampling and
// formats.
#include "server/api/anthropic/messages_request.h"

#include <optional>
#include <string>
#include <utility>

#include "server/api/anthropic/message_history.h"
#include "server/api/anthropic/message_tools.h"
#include "server/api/request/thinking_switch.h"
#include "server/api/request/unsupported_fields.h"
#include "server/json/api_error.h"

namespace hearth {
namespace {

/// Parameters of features that only Anthropic's servers have.
constexpr RefusedField kRefusedInMessages[] = {
    {"mcp_servers", "[]", "this server runs no tools itself"},
    {"container", "[]", "this server runs no tools itself"},
};

GenerationFields read_generation(const RequestFields& fields, const RequestLimits& limits) {
  fields.number("temperature", 0, 1);  // the range in Anthropic's API
  GenerationFields generation = read_generation_fields(fields, limits);
  if (generation.n != 1) refuse_param("n", "'n' must be 1: a message is one answer.");
  for (std::string& text : read_stop_strings(fields, "stop_sequences"))
    generation.stop.push_back(std::move(text));
  return generation;
}

/// If the last message has the role assistant, the answer continues it.
void read_prefill(ChatRequest& request) {
  const Json& last = request.messages.back();
  if (last["role"] != "assistant") return;
  if (last.contains("tool_calls")) {
    refuse_param(
        "messages",
        "The last of 'messages' has a 'tool_use'; send its 'tool_result' in a user message after it.");
  }
  const std::string text = last["content"].get<std::string>();
  const bool says_nothing = text.find_first_not_of(" \t\r\n") == std::string::npos;
  if (says_nothing) {
    request.messages.erase(request.messages.size() - 1);
    if (request.messages.empty()) refuse_param("messages", "'messages' has no content; send a user message.");
    return;
  }
  request.continue_last = true;
  request.add_generation_prompt = false;
}

/// Returns whether the model should think. With the type between_tools, it thinks only if the last message is
/// a tool result.
bool read_thinking_type(const RequestFields& thinking, const Json& messages) {
  const std::string type =
      thinking.required_word("type", {"enabled", "disabled", "adaptive", "between_tools"});
  return type == "between_tools" ? messages.back()["role"] == "tool" : type != "disabled";
}

/// Reads `thinking`. If absent, thinking is off, as in Anthropic's API.
void read_thinking(const RequestFields& fields, MessagesRequest& out) {
  bool thinks = false;
  if (const Json* json = fields.object("thinking")) {
    const RequestFields thinking(*json, fields.param("thinking."));
    thinks = read_thinking_type(thinking, out.chat.messages);
    std::optional<int> budget;
    read_thinking_budget(thinking, "budget_tokens", budget);
    if (thinks) out.chat.thinking_budget = budget;
    out.shows_thinking = thinking.word("display", {"summarized", "omitted"}) != "omitted";
  }
  set_thinking(out.chat.template_arguments, thinks);
}

/// Reads a format: {"type": "json_schema", "schema": {...}}.
void read_format(const RequestFields& fields, const char* name, AnswerFormat& out) {
  const Json* json = fields.object(name);
  if (json == nullptr) return;
  const RequestFields format(*json, fields.param(name) + ".");
  format.required_word("type", {"json_schema"});
  const Json* schema = format.object("schema");
  if (schema == nullptr) {
    refuse_param(format.param("schema"),
                 "'" + format.param("schema") + "' is missing; send a JSON schema (an object).");
  }
  if (out.kind != AnswerFormat::Kind::kText) {
    refuse_param(fields.param(name), "'" + out.param + "' and '" + fields.param(name) +
                                         "' both set the form of the answer; send one of them.");
  }
  out = {AnswerFormat::Kind::kJsonSchema, json_text(*schema), {}, fields.param(name)};
}

void read_output(const RequestFields& fields, ChatRequest& out) {
  read_format(fields, "output_format", out.generation.format);
  const Json* json = fields.object("output_config");
  if (json == nullptr) return;
  const RequestFields config(*json, fields.param("output_config."));
  read_format(config, "format", out.generation.format);
  const std::optional<std::string> effort = config.word("effort", {"low", "medium", "high", "xhigh", "max"});
  if (!effort) return;
  if (!out.template_arguments.contains("reasoning_effort"))
    out.template_arguments["reasoning_effort"] = *effort;
}

}  // namespace

MessagesRequest parse_messages_request(const Json& body, const RequestLimits& limits) {
  const RequestFields fields(body);
  check_foreign_fields(fields, true);
  refuse_fields(fields, kRefusedInMessages);
  MessagesRequest request;
  ChatRequest& chat = request.chat;
  chat.generation = read_generation(fields, limits);
  chat.messages = read_conversation(fields);
  read_prefill(chat);
  chat.choice = read_message_tools(fields);
  chat.max_tokens = fields.integer("max_tokens", 1, kMaxInt64);
  if (const Json* arguments = fields.object("chat_template_kwargs")) chat.template_arguments = *arguments;
  read_thinking(fields, request);
  read_output(fields, chat);
  return request;
}

}  // namespace hearth
