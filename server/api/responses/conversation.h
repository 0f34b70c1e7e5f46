// From items to the messages that chat templates know.
//
// A template sees one assistant's message where the Responses API has several items: thinking, text and calls that follow each
// other. Used by the handlers of responses on the HTTP thread.
#pragma once

#include <set>
#include <string>

#include "server/json/json.h"

namespace hearth {

class Conversation {
 public:
  /// instructions: the system's message that goes before everything; empty: none.
  explicit Conversation(const std::string& instructions);

  /// Adds an item: one of those that read_input_items() gives, but no reference, or of a response's output. param: its place in
  /// the request. Throws RequestError if it answers a call that no item before has made.
  void add(const Json& item, const std::string& param);

  /// The messages, in the form of read_messages(). Call once, last, and after at least one add().
  Json take();

 private:
  void add_system(const std::string& text);
  void add_assistant(const Json& item);
  Json& assistant();
  void add_result(const Json& item, const std::string& param);

  Json messages_ = Json::array();
  std::set<std::string> calls_;    // ids of the calls so far
  bool assistant_speaks_ = false;  // the last message is the assistant's, and items can still join it
};

}  // namespace hearth
