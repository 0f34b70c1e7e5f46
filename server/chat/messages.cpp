// Checks the messages of a chat request and converts them to one form. Errors name a member by its full path,
// for example messages[0].content[1].type.
#include "server/chat/messages.h"

#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "server/json/api_error.h"

namespace hearth {
namespace {

constexpr std::array<std::string_view, 6> kRoles = {"system",    "developer", "user",
                                                    "assistant", "tool",      "function"};

/// Returns the text of one content part. Rejects parts of other types, because the models that this server
/// runs accept only text.
std::string part_text(const Json& part, const std::string& param) {
  if (part.is_string()) return part.get<std::string>();
  if (!part.is_object())
    refuse_param(param, "'" + param + "' must be an object, found " + describe(part) + ".");
  const RequestFields fields(part, param + ".");
  const std::string type = fields.string("type").value_or("");
  const bool is_text = type == "text" || type == "input_text" || type == "output_text";
  if (!is_text && type != "refusal") {
    refuse_param(fields.param("type"),
                 "'" + fields.param("type") + "' is " + describe(Json(type)) +
                     "; this server takes parts of type 'text' only: the model reads text.");
  }
  const char* member = is_text ? "text" : "refusal";
  const std::optional<std::string> text = fields.string(member);
  if (!text) refuse_param(fields.param(member), "'" + fields.param(member) + "' is missing; send a string.");
  return *text;
}

/// The types of parts that hold a model's thinking, each under a member of the same name or `text`. Mistral's
/// parts of type thinking hold a list of text parts.
constexpr std::array<std::string_view, 3> kThoughts = {"thinking", "reasoning", "reasoning_text"};

bool is_thought(const Json& part) {
  if (!part.is_object()) return false;
  const Json type = part.value("type", Json());
  return type.is_string() &&
         std::ranges::find(kThoughts, type.get_ref<const std::string&>()) != kThoughts.end();
}

std::string thought_text(const Json& thought, const std::string& param);

/// Returns the texts of parts of thinking, joined by newlines.
std::string joined_thoughts(const Json& parts, const std::string& param) {
  std::string text;
  for (size_t i = 0; i < parts.size(); ++i) {
    const std::string one = thought_text(parts[i], param + "[" + std::to_string(i) + "]");
    text += (text.empty() || one.empty() ? "" : "\n") + one;
  }
  return text;
}

std::string thought_text(const Json& thought, const std::string& param) {
  if (!is_thought(thought)) return part_text(thought, param);
  for (const char* name : {"thinking", "reasoning", "text"}) {
    const auto member = thought.find(name);
    if (member == thought.end()) continue;
    if (member->is_string()) return member->get<std::string>();
    if (member->is_array()) return joined_thoughts(*member, param + "." + name);
  }
  refuse_param(param, "'" + param + "' has no text; send it as 'thinking' or 'text'.");
}

/// Reads an assistant's thinking, which is a text or a list of parts. Moves parts of thinking in the content
/// to it.
void read_thoughts(Json& message, const std::string& param) {
  const auto reasoning = message.find("reasoning_content");
  if (reasoning != message.end() && reasoning->is_array())
    *reasoning = joined_thoughts(*reasoning, param + "reasoning_content");
  const auto content = message.find("content");
  if (content == message.end() || !content->is_array()) return;
  Json others = Json::array(), thoughts = Json::array();
  for (const Json& part : *content) (is_thought(part) ? thoughts : others).push_back(part);
  if (thoughts.empty()) return;
  const std::string text = joined_thoughts(thoughts, param + "content");
  message["content"] = others.empty() ? Json("") : std::move(others);
  if (!message.contains("reasoning_content") || message["reasoning_content"].is_null())
    message["reasoning_content"] = text;
}

/// Returns the content as a string or null. An array of content parts becomes one string, with newlines
/// between the parts, as in other servers.
Json read_content(const Json& content, const std::string& param) {
  if (content.is_string() || content.is_null()) return content;
  if (!content.is_array()) {
    refuse_param(param,
                 "'" + param + "' must be a string or an array of parts, found " + describe(content) + ".");
  }
  if (content.empty())
    refuse_param(param, "'" + param + "' is an empty array; send a string, or at least one part.");
  std::string text;
  for (size_t i = 0; i < content.size(); ++i) {
    if (i > 0) text += '\n';
    text += part_text(content[i], param + "[" + std::to_string(i) + "]");
  }
  return text;
}

void check_function(const Json& function, const std::string& param) {
  const RequestFields fields(function, param + ".");
  const std::optional<std::string> name = fields.string("name");
  if (!name || name->empty()) {
    refuse_param(fields.param("name"),
                 "'" + fields.param("name") + "' is missing or empty; send the function's name.");
  }
  const Json* arguments = fields.find("arguments");
  if (arguments != nullptr && !arguments->is_string() && !arguments->is_object()) {
    refuse_param(fields.param("arguments"), "'" + fields.param("arguments") +
                                                "' must be JSON text or an object, found " +
                                                describe(*arguments) + ".");
  }
}

/// Checks one tool call and adds the members that templates need.
void read_tool_call(Json& call, const std::string& param) {
  if (!call.is_object()) {
    refuse_param(param, "'" + param + "' must be an object, found " + describe(call) + ".");
  }
  const RequestFields fields(call, param + ".");
  fields.string("id");  // checks the type
  if (fields.string("type").value_or("function") != "function") {
    refuse_param(fields.param("type"), "'" + fields.param("type") + "' must be 'function'.");
  }
  const Json* function = fields.object("function");
  if (function == nullptr) {
    refuse_param(fields.param("function"), "'" + fields.param("function") + "' is missing; send an object.");
  }
  check_function(*function, fields.param("function"));
  if (const auto id = call.find("id"); id != call.end() && id->is_null()) call.erase(id);
  call["type"] = "function";
  Json& written = call["function"];
  if (!written.contains("arguments") || written["arguments"].is_null()) written["arguments"] = "{}";
}

/// Maps the id of each call to the name of the called function. name_result() adds this name to the message
/// that holds the call's result.
using CallNames = std::unordered_map<std::string, std::string>;

void remember_calls(const Json& message, CallNames& names) {
  const auto calls = message.find("tool_calls");
  if (calls == message.end()) return;
  for (const Json& call : *calls) {
    if (call.contains("id")) {
      names[call["id"].get<std::string>()] = call["function"]["name"].get<std::string>();
    }
  }
}

void name_result(Json& message, const CallNames& names) {
  if (message["role"] != "tool" || message.contains("name") || !message.contains("tool_call_id")) return;
  const auto name = names.find(message["tool_call_id"].get<std::string>());
  if (name != names.end()) message["name"] = name->second;
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
  if (role == "assistant") read_thoughts(out, fields.param(""));
  out["role"] = role == "developer" ? "system" : role;
  const RequestFields read(out, param + ".");
  const Json* content = read.find("content");
  const Json* calls = fields.array("tool_calls");
  const bool made_calls = (calls != nullptr && !calls->empty()) || fields.find("function_call") != nullptr;
  if (content == nullptr && !(role == "assistant" && made_calls)) {
    refuse_param(fields.param("content"),
                 "'" + fields.param("content") +
                     "' is missing; only an assistant's message with tool_calls may lack it.");
  }
  Json text = content == nullptr ? Json(nullptr) : read_content(*content, fields.param("content"));
  out["content"] = std::move(text);
  if (calls != nullptr) {
    Json& list = out["tool_calls"];
    for (size_t i = 0; i < list.size(); ++i) {
      read_tool_call(list[i], fields.param("tool_calls") + "[" + std::to_string(i) + "]");
    }
  }
  for (const char* name : {"name", "tool_call_id", "reasoning_content"}) {
    read.string(name);  // checks only the type; the value stays as sent
    if (const auto member = out.find(name); member != out.end() && member->is_null()) out.erase(member);
  }
  if (const auto member = out.find("tool_calls");
      member != out.end() && (member->is_null() || member->empty())) {
    // null and [] mean that there are no calls. Templates test only whether the key exists, so it is removed.
    out.erase(member);
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
  CallNames names;
  for (size_t i = 0; i < messages.size(); ++i) {
    out.push_back(read_message(messages[i], "messages[" + std::to_string(i) + "]"));
    remember_calls(out.back(), names);
    name_result(out.back(), names);
  }
  return out;
}

}  // namespace hearth
