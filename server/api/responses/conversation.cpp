// See the header.
#include "server/api/responses/conversation.h"

#include <string_view>
#include <utility>

#include "server/api/responses/input_items.h"
#include "server/api/responses/response_tools.h"
#include "server/chat/messages.h"
#include "server/json/api_error.h"

namespace hearth {
namespace {

constexpr std::string_view kCallEnding = "_call";
constexpr std::string_view kSummaryHeading = "Summary of the conversation up to here:\n";

/// Returns the name under which the model saw the called tool.
std::string shown_name(const Json& item) {
  return shown_tool_name(item.value("namespace", std::string()), item["name"].get<std::string>());
}

}  // namespace

Conversation::Conversation(const std::string& instructions) {
  if (!instructions.empty()) add_system(instructions);
}

/// Adds a system message. If the last message is a system message, appends the text to it instead, because
/// many templates accept only one system message at the beginning.
void Conversation::add_system(const std::string& text) {
  if (!messages_.empty() && messages_.back()["role"] == "system") {
    std::string& before = messages_.back()["content"].get_ref<std::string&>();
    before.append("\n\n").append(text);
  } else {
    messages_.push_back({{"role", "system"}, {"content", text}});
  }
}

/// Returns the current assistant message. Begins one if there is none.
Json& Conversation::assistant() {
  if (!assistant_speaks_) messages_.push_back({{"role", "assistant"}, {"content", ""}});
  assistant_speaks_ = true;
  return messages_.back();
}

void Conversation::add_call(const Json& call_id, const std::string& name, const std::string& arguments) {
  const Json call = {
      {"id", call_id}, {"type", "function"}, {"function", {{"name", name}, {"arguments", arguments}}}};
  assistant()["tool_calls"].push_back(call);
  calls_.insert(call_id.get<std::string>());
}

void Conversation::add_assistant(const Json& item) {
  const Json& type = item["type"];
  if (type == "function_call") return add_call(item["call_id"], shown_name(item), item["arguments"]);
  if (type == "custom_tool_call")
    return add_call(item["call_id"], shown_name(item), json_text({{kCustomInput, item["input"]}}));
  const std::string thought =
      type == "reasoning" ? text_of_parts(item["content"].empty() ? item["summary"] : item["content"]) : "";
  if (type == "reasoning" && thought.empty()) return;  // encrypted, perhaps
  // A message has thinking first, then text, then calls. An item that does not follow this order begins a new
  // message.
  const Json& message = assistant();
  const bool has_text = message["content"] != "";
  if (message.contains("tool_calls") || has_text) assistant_speaks_ = false;
  if (type == "message") {
    assistant()["content"] = text_of_parts(item["content"]);
    return;
  }
  Json& thoughts = assistant()["reasoning_content"];
  if (thoughts.is_string()) {
    thoughts.get_ref<std::string&>().append("\n").append(thought);
  } else {
    thoughts = thought;
  }
}

void Conversation::check_call(const Json& item, const std::string& param) const {
  const std::string call_id = item["call_id"].get<std::string>();
  if (calls_.contains(call_id)) return;
  refuse_param(param + ".call_id",
               "'" + param + ".call_id' is " + describe(Json(call_id)) +
                   ", but no call before it has this id; send the call too, or 'previous_response_id'.");
}

void Conversation::add_result(const std::string& call_id, const std::string& text) {
  assistant_speaks_ = false;
  messages_.push_back({{"role", "tool"}, {"tool_call_id", call_id}, {"content", text}});
}

/// Adds the user's text, behind a summary if that is the last message.
void Conversation::add_user(const std::string& text) {
  if (after_summary_ && !messages_.empty() && messages_.back()["role"] == "user") {
    messages_.back()["content"].get_ref<std::string&>().append("\n\n").append(text);
  } else {
    messages_.push_back({{"role", "user"}, {"content", text}});
  }
}

/// A summary belongs to the user's messages around it, because many templates accept no two messages of the
/// user in a row.
void Conversation::add_summary(const std::string& summary) {
  assistant_speaks_ = false;
  Json users = Json::array();
  while (!messages_.empty() && messages_.back()["role"] == "user") {
    users.insert(users.begin(), messages_.back()["content"]);
    messages_.erase(messages_.size() - 1);
  }
  after_summary_ = true;
  messages_.push_back({{"role", "user"}, {"content", ""}});
  std::string& text = messages_.back()["content"].get_ref<std::string&>();
  for (const Json& user : users) text += user.get<std::string>() + "\n\n";
  text += std::string(kSummaryHeading) + summary;
}

/// Adds an item whose type this server does not know, if the item is a call of a tool that the client ran, or
/// the result of such a call. Returns false for other items.
bool Conversation::add_foreign(const Json& item) {
  const auto call_id = item.find("call_id");
  if (call_id == item.end() || !call_id->is_string()) return false;
  const std::string type = item["type"].get<std::string>();
  if (type.ends_with(kCallEnding) && type != kCallEnding) {
    Json rest = Json::object();
    for (const auto& [name, value] : item.items())
      if (name != "type" && name != "id" && name != "call_id" && name != "status") rest[name] = value;
    add_call(*call_id, type.substr(0, type.size() - kCallEnding.size()), json_text(rest));
    return true;
  }
  if (!type.ends_with("_output") || !calls_.contains(call_id->get<std::string>())) return false;
  const Json output = item.value("output", Json(""));
  add_result(*call_id, output.is_string() ? output.get<std::string>() : json_text(output));
  return true;
}

void Conversation::add(const Json& item, const std::string& param) {
  const std::string type = item["type"].get<std::string>();
  const bool is_message = type == "message";
  if (type == "function_call" || type == "custom_tool_call" || type == "reasoning" ||
      (is_message && item["role"] == "assistant")) {
    return add_assistant(item);
  }
  if (type == "function_call_output" || type == "custom_tool_call_output") {
    check_call(item, param);
    return add_result(item["call_id"], text_of_parts(item["output"]));
  }
  if (type == "compaction") return add_summary(summary_of(item["encrypted_content"]).value_or(""));
  if (!is_message) {
    add_foreign(item);
    return;
  }
  assistant_speaks_ = false;
  const std::string text = text_of_parts(item["content"]);
  if (item["role"] != "user") return add_system(text);
  add_user(text);
  after_summary_ = false;
}

Json Conversation::take() { return read_messages(std::exchange(messages_, Json::array())); }

}  // namespace hearth
