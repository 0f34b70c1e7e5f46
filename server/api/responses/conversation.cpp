// See the header.
#include "server/api/responses/conversation.h"

#include <utility>

#include "server/api/responses/input_items.h"
#include "server/chat/messages.h"
#include "server/json/api_error.h"

namespace hearth {

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

void Conversation::add_assistant(const Json& item) {
  const Json& type = item["type"];
  if (type == "function_call") {
    const Json call = {{"id", item["call_id"]},
                       {"type", "function"},
                       {"function", {{"name", item["name"]}, {"arguments", item["arguments"]}}}};
    assistant()["tool_calls"].push_back(call);
    calls_.insert(item["call_id"].get<std::string>());
    return;
  }
  // A message has thinking first, then text, then calls. An item that does not follow this order begins a new
  // message.
  const Json& message = assistant();
  const bool has_text = message["content"] != "";
  if (message.contains("tool_calls") || has_text) assistant_speaks_ = false;
  if (type == "message") {
    assistant()["content"] = text_of_parts(item["content"]);
    return;
  }
  const Json& content = item["content"];
  const std::string thought = text_of_parts(content.empty() ? item["summary"] : content);
  if (thought.empty()) return;
  Json& thoughts = assistant()["reasoning_content"];
  if (thoughts.is_string()) {
    thoughts.get_ref<std::string&>().append("\n").append(thought);
  } else {
    thoughts = thought;
  }
}

void Conversation::add_result(const Json& item, const std::string& param) {
  const std::string call_id = item["call_id"].get<std::string>();
  if (!calls_.contains(call_id)) {
    refuse_param(param + ".call_id",
                 "'" + param + ".call_id' is " + describe(Json(call_id)) +
                     ", but no function_call before it has this id; send the call too, or "
                     "'previous_response_id'.");
  }
  messages_.push_back(
      {{"role", "tool"}, {"tool_call_id", call_id}, {"content", text_of_parts(item["output"])}});
}

void Conversation::add(const Json& item, const std::string& param) {
  const Json& type = item["type"];
  const bool is_message = type == "message";
  if (type == "function_call" || type == "reasoning" || (is_message && item["role"] == "assistant"))
    return add_assistant(item);
  assistant_speaks_ = false;
  if (!is_message) return add_result(item, param);
  const std::string text = text_of_parts(item["content"]);
  if (item["role"] != "user") return add_system(text);
  messages_.push_back({{"role", "user"}, {"content", text}});
}

Json Conversation::take() { return read_messages(std::exchange(messages_, Json::array())); }

}  // namespace hearth
