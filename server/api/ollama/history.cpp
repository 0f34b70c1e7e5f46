// Renames members to OpenAI's names. read_messages() checks their values.
#include "server/api/ollama/history.h"

#include <deque>
#include <string>
#include <unordered_map>
#include <utility>

#include "server/chat/messages.h"
#include "server/json/api_error.h"

namespace hearth {
namespace {

void rename(Json& message, const char* from, const char* to) {
  const auto found = message.find(from);
  if (found == message.end()) return;
  Json value = std::move(*found);
  message.erase(from);
  if (!value.is_null() && value != "" && !message.contains(to)) message[to] = std::move(value);
}

void refuse_images(Json& message, const std::string& param) {
  const Json* images = RequestFields(message, param + ".").array("images");
  if (images != nullptr && !images->empty()) {
    refuse_param(param + ".images", "'" + param + ".images' is not empty; the model reads text.");
  }
  message.erase("images");
}

std::string text_of(const Json& json, const char* member) {
  const auto found = json.find(member);
  return found != json.end() && found->is_string() ? found->get<std::string>() : std::string();
}

/// The ids of the calls in the last assistant message. The results after this message refer to them.
class CallIds {
 public:
  /// Sets the ids of calls that have none.
  void name_calls(Json& message) {
    const auto calls = message.find("tool_calls");
    if (calls == message.end() || !calls->is_array()) return;
    in_order_.clear();
    by_name_.clear();
    for (Json& call : *calls) {
      if (!call.is_object() || !call.contains("function") || !call["function"].is_object()) continue;
      call["function"].erase("index");
      if (text_of(call, "id").empty()) call["id"] = "call_" + std::to_string(n_++);
      in_order_.push_back(text_of(call, "id"));
      by_name_[text_of(call["function"], "name")].push_back(in_order_.back());
    }
  }

  /// Sets the id of a result that has none to the id of its call.
  void name_result(Json& message) {
    if (!text_of(message, "tool_call_id").empty()) return;
    const std::string name = text_of(message, "name");
    std::deque<std::string>& ids = name.empty() ? in_order_ : by_name_[name];
    if (ids.empty()) return;
    message["tool_call_id"] = std::move(ids.front());
    ids.pop_front();
  }

 private:
  std::deque<std::string> in_order_;
  std::unordered_map<std::string, std::deque<std::string>> by_name_;
  int n_ = 0;
};

void read_message(Json& message, const std::string& param, CallIds& ids) {
  if (!message.is_object()) return;  // read_messages() will refuse it
  refuse_images(message, param);
  rename(message, "thinking", "reasoning_content");
  rename(message, "tool_name", "name");
  const std::string role = text_of(message, "role");
  if (role == "assistant") ids.name_calls(message);
  if (role == "tool") ids.name_result(message);
  if (!message.contains("content") || message["content"].is_null()) message["content"] = "";
}

}  // namespace

Json read_ollama_messages(const Json& messages) {
  Json out = messages;
  CallIds ids;
  for (size_t i = 0; i < out.size() && out.is_array(); ++i)
    read_message(out[i], "messages[" + std::to_string(i) + "]", ids);
  return read_messages(out);
}

}  // namespace hearth
