// Checks and normalises messages. Errors give the full name of a member, such as messages[0].content[1].type.
#include "server/chat/messages.h"

#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <utility>

#include "server/api/error.h"

namespace hearth {
namespace {

constexpr std::array<std::string_view, 6> kRoles = {"system",    "developer", "user",
                                                    "assistant", "tool",      "function"};

/// The text of one content part. Only text can be shown to the models this server runs.
std::string part_text(const Json& part, const std::string& param) {
  if (part.is_string()) return part.get<std::string>();
  if (!part.is_object())
    refuse_param(param, "'" + param + "' must be an object, found " + describe(part) + ".");
  const RequestFields fields(part, param + ".");
  const std::string type = fields.string("type").value_or("");
  const bool is_text = type == "text" || type == "input_text";
  if (!is_text && type != "refusal") {
    refuse_param(fields.param("type"),
                 "'" + fields.param("type") + "' is '" + type +
                     "'; this server takes parts of type 'text' only: the model reads text.");
  }
  const char* member = is_text ? "text" : "refusal";
  const std::optional<std::string> text = fields.string(member);
  if (!text) refuse_param(fields.param(member), "'" + fields.param(member) + "' is missing; send a string.");
  return *text;
}

/// Content parts are joined by a newline, as other servers do.
Json read_content(const Json& content, const std::string& param) {
  if (content.is_string() || content.is_null()) return content;
  if (!content.is_array()) {
    refuse_param(param,
                 "'" + param + "' must be a string or an array of parts, found " + describe(content) + ".");
  }
  std::string text;
  for (size_t i = 0; i < content.size(); ++i) {
    if (i > 0) text += '\n';
    text += part_text(content[i], param + "[" + std::to_string(i) + "]");
  }
  return text;
}

void check_tool_calls(const Json& calls, const std::string& param) {
  for (size_t i = 0; i < calls.size(); ++i) {
    const std::string call_param = param + "[" + std::to_string(i) + "]";
    if (!calls[i].is_object()) {
      refuse_param(call_param, "'" + call_param + "' must be an object, found " + describe(calls[i]) + ".");
    }
    const RequestFields fields(calls[i], call_param + ".");
    const Json* function = fields.object("function");
    if (function == nullptr) {
      refuse_param(fields.param("function"),
                   "'" + fields.param("function") + "' is missing; send an object.");
    }
    const RequestFields function_fields(*function, fields.param("function."));
    if (!function_fields.string("name")) {
      refuse_param(function_fields.param("name"),
                   "'" + function_fields.param("name") + "' is missing; send a string.");
    }
    const Json* arguments = function_fields.find("arguments");
    if (arguments != nullptr && !arguments->is_string() && !arguments->is_object()) {
      refuse_param(function_fields.param("arguments"), "'" + function_fields.param("arguments") +
                                                           "' must be JSON text or an object, found " +
                                                           describe(*arguments) + ".");
    }
  }
}

Json read_message(const Json& message, const std::string& param) {
  if (!message.is_object())
    refuse_param(param, "'" + param + "' must be an object, found " + describe(message) + ".");
  const RequestFields fields(message, param + ".");
  const std::string role = fields.string("role").value_or("");
  if (std::find(kRoles.begin(), kRoles.end(), role) == kRoles.end()) {
    const Json* found = fields.find("role");
    refuse_param(fields.param("role"), "'" + fields.param("role") +
                                           "' must be system, developer, user, assistant or tool, found " +
                                           (found == nullptr ? "nothing" : describe(*found)) + ".");
  }
  Json out = message;
  out["role"] = role == "developer" ? "system" : role;
  const Json* content = fields.find("content");
  const Json* calls = fields.array("tool_calls");
  const bool made_calls = (calls != nullptr && !calls->empty()) || fields.find("function_call") != nullptr;
  if (content == nullptr && !(role == "assistant" && made_calls)) {
    refuse_param(fields.param("content"),
                 "'" + fields.param("content") +
                     "' is missing; only an assistant's message with tool_calls may lack it.");
  }
  out["content"] = content == nullptr ? Json(nullptr) : read_content(*content, fields.param("content"));
  if (calls != nullptr) check_tool_calls(*calls, fields.param("tool_calls"));
  for (const char* name : {"name", "tool_call_id"}) {
    fields.string(name);  // checks the type; the template gets it as it is
    if (const auto member = out.find(name); member != out.end() && member->is_null()) out.erase(member);
  }
  if (const auto member = out.find("tool_calls");
      member != out.end() && (member->is_null() || member->empty())) {
    out.erase(member);  // null and [] mean none; templates ask only whether the key is there
  }
  return out;
}

}  // namespace

Json read_messages(const Json& messages) {
  if (!messages.is_array() || messages.empty()) {
    refuse_param("messages",
                 "'messages' must be an array of at least one message, found " + describe(messages) + ".");
  }
  Json out = Json::array();
  for (size_t i = 0; i < messages.size(); ++i) {
    out.push_back(read_message(messages[i], "messages[" + std::to_string(i) + "]"));
  }
  return out;
}

}  // namespace hearth
