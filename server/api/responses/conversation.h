// Converts items to messages in the form that chat templates use.
//
// Several items of the Responses API in a row (thinking, text and calls) make one assistant message for a
// template. Used by the /v1/responses handlers on the HTTP thread.
#pragma once

#include <set>
#include <string>

#include "server/json/json.h"

namespace hearth {

class Conversation {
 public:
  /// instructions: text of the system message that precedes all messages; empty: no such message.
  explicit Conversation(const std::string& instructions);

  /// Adds an item that comes from read_input_items() or from a response's output, and is not an
  /// item_reference. param: the item's position in the request. Throws RequestError if the item is the result
  /// of a call that no earlier item made.
  void add(const Json& item, const std::string& param);

  /// Returns the messages in the form of read_messages(). Call once, after the last add(); at least one item
  /// must have been added.
  Json take();

 private:
  void add_system(const std::string& text);
  void add_assistant(const Json& item);
  Json& assistant();
  void add_result(const Json& item, const std::string& param);

  Json messages_ = Json::array();
  std::set<std::string> calls_;    // ids of all calls so far
  bool assistant_speaks_ = false;  // the last message is the assistant's and can take more items
};

}  // namespace hearth
