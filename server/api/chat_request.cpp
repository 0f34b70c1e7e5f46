// Parameters of chat completions, each as OpenAI's specification has it.
#include "server/api/chat_request.h"

#include <limits>
#include <string>

#include "server/api/error.h"
#include "server/chat/messages.h"

namespace hearth {
namespace {

constexpr int kMaxTopLogprobs = 20;

/// The tools that the template gets; null for none. With tool_choice "none" the model does not see them.
Json read_tools(const RequestFields& fields) {
  if (const Json* functions = fields.array("functions"); functions != nullptr && !functions->empty()) {
    refuse_param("functions", "'functions' is not supported; send 'tools' instead.");
  }
  const Json* choice = fields.find("tool_choice");
  const bool named = choice != nullptr && choice->is_object();
  if (named || (choice != nullptr && *choice == "required")) {
    refuse_param("tool_choice",
                 "'tool_choice' cannot force a tool call: this server shows tools to the model but does not "
                 "constrain its answer. Use 'auto' or 'none'.");
  }
  if (choice != nullptr && *choice != "auto" && *choice != "none") {
    refuse_param("tool_choice", "'tool_choice' must be 'none' or 'auto', found " + describe(*choice) + ".");
  }
  const Json* tools = fields.array("tools");
  if (tools == nullptr || tools->empty()) return nullptr;
  for (size_t i = 0; i < tools->size(); ++i) {
    const std::string param = "tools[" + std::to_string(i) + "]";
    const Json& tool = (*tools)[i];
    if (!tool.is_object())
      refuse_param(param, "'" + param + "' must be an object, found " + describe(tool) + ".");
    const RequestFields tool_fields(tool, param + ".");
    if (tool_fields.string("type").value_or("") != "function") {
      refuse_param(tool_fields.param("type"), "'" + tool_fields.param("type") + "' must be 'function'.");
    }
    const Json* function = tool_fields.object("function");
    if (function == nullptr || !RequestFields(*function, param + ".function.").string("name")) {
      refuse_param(tool_fields.param("function"),
                   "'" + tool_fields.param("function") + "' must be an object with a 'name'.");
    }
  }
  return choice != nullptr && *choice == "none" ? Json(nullptr) : *tools;
}

void check_response_format(const RequestFields& fields) {
  const Json* format = fields.object("response_format");
  if (format == nullptr) return;
  const std::string type = RequestFields(*format, "response_format.").string("type").value_or("");
  if (type == "text") return;
  if (type == "json_object" || type == "json_schema") {
    refuse_param("response_format",
                 "'response_format' of type '" + type +
                     "' is not supported yet: this server cannot constrain the answer. Use 'text', "
                     "and ask for JSON in the messages.");
  }
  refuse_param("response_format",
               "'response_format' must have type 'text', 'json_object' or 'json_schema', found " +
                   describe(*format) + ".");
}

void check_modalities(const RequestFields& fields) {
  const Json* modalities = fields.array("modalities");
  if (modalities == nullptr) return;
  for (const Json& item : *modalities) {
    if (item != "text")
      refuse_param("modalities", "'modalities' must be ['text']: the model writes text only.");
  }
}

}  // namespace

ChatRequest parse_chat_request(const Json& body, const RequestLimits& limits) {
  const RequestFields fields(body);
  ChatRequest request;
  request.generation = read_generation_fields(fields, limits);
  check_copies(request.generation, static_cast<size_t>(request.generation.n));
  const Json* messages = fields.find("messages");
  if (messages == nullptr) refuse_param("messages", "'messages' is missing; send an array of messages.");
  request.messages = read_messages(*messages);
  request.tools = read_tools(fields);
  check_response_format(fields);
  check_modalities(fields);
  constexpr int64_t kMax = std::numeric_limits<int64_t>::max();
  request.max_tokens = fields.integer("max_tokens", 1, kMax);  // the older name
  if (const std::optional<int64_t> n = fields.integer("max_completion_tokens", 1, kMax)) {
    request.max_tokens = n;
    request.max_tokens_param = "max_completion_tokens";
  }
  request.logprobs = fields.boolean("logprobs").value_or(false);
  const std::optional<int64_t> top = fields.integer("top_logprobs", 0, kMaxTopLogprobs);
  if (top && !request.logprobs) {
    refuse_param("top_logprobs", "'top_logprobs' is only allowed when 'logprobs' is true.");
  }
  request.top_logprobs = static_cast<int>(top.value_or(0));
  request.add_generation_prompt = fields.boolean("add_generation_prompt").value_or(true);
  if (const Json* arguments = fields.object("chat_template_kwargs")) request.template_arguments = *arguments;
  return request;
}

}  // namespace hearth
