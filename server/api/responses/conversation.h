// Converts items of the Responses API to messages for chat templates.
//
// Consecutive items with thinking, text and calls become one assistant message. If a client ran a tool that
// only OpenAI's clients and servers know, its call becomes the call of a function whose name is the item's
// type. All other unknown items are left out. Used on HTTP threads.
#pragma once

#include <set>
#include <string>

#include "server/json/json.h"

namespace hearth {

class Conversation {
 public:
  /// instructions: text of a system message before all others; empty: no such message.
  explicit Conversation(const std::string& instructions);

  /// Adds an item from read_input_items() or from a response's output. REQUIRES: it is not an item_reference.
  /// param: position of the item in the request. Throws RequestError if the item is the result of a call of a
  /// function or custom tool that no earlier item contains.
  void add(const Json& item, const std::string& param);

  /// Returns the messages in the form of read_messages(). Call once. REQUIRES: at least one item was added.
  Json take();

 private:
  void add_system(const std::string& text);
  void add_assistant(const Json& item);
  Json& assistant();
  void add_call(const Json& call_id, const std::string& name, const std::string& arguments);
  bool add_foreign(const Json& item);
  void add_summary(const std::string& summary);
  void add_user(const std::string& text);
  void add_result(const std::string& call_id, const std::string& text);
  void check_call(const Json& item, const std::string& param) const;

  Json messages_ = Json::array();
  std::set<std::string> calls_;  // ids of all calls so far
  // Whether the last message is an assistant message to which more items can be added.
  bool assistant_speaks_ = false;
  // Whether the last message is a summary, to which the next message of the user is added.
  bool after_summary_ = false;
};

}  // namespace hearth
