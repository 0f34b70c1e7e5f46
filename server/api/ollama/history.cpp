// Renames members to OpenAI's names. read_messages() checks their values.
#include "server/api/ollama/history.h"

#include <deque>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

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

/// The calls of the last assistant message. The results after this message refer to them.
class CallIds {
 public:
  /// Sets the ids of calls that have none.
  void name_calls(Json& message) {
    const auto calls = message.find("tool_calls");
    if (calls == message.end() || !calls->is_array()) return;
    ids_.clear();
    answered_.clear();
    in_order_.clear();
    by_name_.clear();
    by_id_.clear();
    for (Json& call : *calls) {
      if (!call.is_object() || !call.contains("function") || !call["function"].is_object()) continue;
      call["function"].erase("index");
      if (text_of(call, "id").empty()) call["id"] = "call_" + std::to_string(n_++);
      const size_t number = ids_.size();
      ids_.push_back(text_of(call, "id"));
      answered_.push_back(false);
      in_order_.push_back(number);
      by_name_[text_of(call["function"], "name")].push_back(number);
      by_id_[ids_.back()].push_back(number);
    }
  }

  /// Sets the id of a result that has none to the id of its call. Each result answers one call.
  void name_result(Json& message) {
    const std::string id = text_of(message, "tool_call_id"), name = text_of(message, "name");
    if (!id.empty()) {
      if (const auto found = by_id_.find(id); found != by_id_.end()) answer(found->second);
      return;
    }
    const std::optional<size_t> call = answer(name.empty() ? in_order_ : by_name_[name]);
    if (call) message["tool_call_id"] = ids_[*call];
  }

 private:
  /// Removes answered calls from the front of the list. Returns the call that is first then, which counts as
  /// answered from now on, or nullopt if the list is empty.
  std::optional<size_t> answer(std::deque<size_t>& calls) {
    while (!calls.empty() && answered_[calls.front()]) calls.pop_front();
    if (calls.empty()) return std::nullopt;
    answered_[calls.front()] = true;
    return calls.front();
  }

  std::vector<std::string> ids_;  // by the call's number, which is its index here
  std::vector<bool> answered_;
  // Numbers of calls, in order. They may include answered calls.
  std::deque<size_t> in_order_;
  std::unordered_map<std::string, std::deque<size_t>> by_name_, by_id_;
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
