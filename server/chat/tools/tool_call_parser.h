// Finds tool calls and thinking in a model's output while the output is generated.
//
// push() takes text in pieces of any size and returns events. The sizes of the pieces affect only how text is
// divided among events of one kind. Text that may turn out to be a call is held back until more text shows
// whether it is one. If it is not a call, it is returned as text, without loss. kCallBegin is returned only
// after the call's name and the beginning of its arguments have arrived. If text after kCallBegin is not a
// valid call, the call's arguments end there, and the rest becomes text. If the answer ends inside the texts
// around or in a call, what has not become an event is dropped. White space between text, thinking and calls
// is dropped.
//
// Each generated sequence has one ToolCallParser, on the HTTP thread that answers the request.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "server/chat/chat_form.h"

namespace hearth {

struct ToolEvent {
  enum class Kind { kText, kReasoning, kCallBegin, kArguments, kCallEnd };
  Kind kind = Kind::kText;
  // kText, kReasoning, kArguments: the next part of the text. kCallBegin: the function's name.
  std::string text = {};
  int index = 0;        // index of the call, from 0
  std::string id = {};  // kCallBegin: the call's id
  bool whole = true;    // kCallEnd: whether the arguments are complete
};

/// Generates an id for the call with this index. Used if the syntax has no ids, once per call and in order.
using MakeCallId = std::function<std::string(int)>;

/// Interface of the parsers that ToolCallParser uses: one for the harmony format, one for all other formats.
class AnswerParser {
 public:
  virtual ~AnswerParser() = default;
  virtual std::vector<ToolEvent> push(std::string_view text) = 0;
  virtual std::vector<ToolEvent> finish() = 0;
};

class ToolCallParser {
 public:
  /// Looks for calls if the form has tools. If the answer must have a format, looks for calls only at the
  /// start of the answer, because text in that format may contain anything. If the model writes text
  /// parameters without quotes, the tools' schemas determine which parameters are text. The form must outlive
  /// this object.
  ToolCallParser(const ChatForm& form, MakeCallId make_id);

  /// Adds text and returns the events that later text cannot change. The texts of events are not empty. The
  /// texts may end inside a UTF-8 character if the added pieces do.
  std::vector<ToolEvent> push(std::string_view text) { return parser_->push(text); }
  /// Call once, when the text has ended. Returns the events of the text that was held back. A call with
  /// complete arguments is complete even without its closing text, because some models close a call with the
  /// token that ends the answer.
  std::vector<ToolEvent> finish() { return parser_->finish(); }

 private:
  std::unique_ptr<AnswerParser> parser_;
};

/// Returns the id of call `index` of an answer. The id depends only on the arguments. short_id: the id has
/// nine letters and digits, for templates that accept no other ids (ChatSyntax::short_ids).
std::string make_call_id(uint64_t seed, int index, bool short_id);

}  // namespace hearth
