// Finds tool calls and thinking in a model's output while it is generated.
//
// Text comes in pieces of any size; events go out. How the text was cut changes only where adjacent events of
// one kind are split; joined, they are equal. Text that may become a call is held back until that is decided.
// If it is no call, it is returned as text, with nothing lost: a call is announced (kCallBegin) only after
// its name and the beginning of its arguments, and if it breaks off later, its arguments end there and the
// rest is text. White space between text, thinking and calls is dropped.
//
// One object per generated sequence, on the HTTP thread that answers the request.
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
  std::string text = {};  // kText, kReasoning, kArguments: the next text. kCallBegin: the function's name
  int index = 0;          // index of the call, from 0
  std::string id = {};    // kCallBegin: the call's id
  bool whole = true;      // kCallEnd: the arguments are complete
};

/// Makes the id of the call with this index if the syntax has none. Called once per call, in order.
using MakeCallId = std::function<std::string(int)>;

/// The interface of ToolCallParser's implementations, one for each layout of answers.
class AnswerParser {
 public:
  virtual ~AnswerParser() = default;
  virtual std::vector<ToolEvent> push(std::string_view text) = 0;
  virtual std::vector<ToolEvent> finish() = 0;
};

class ToolCallParser {
 public:
  /// Calls are found if the form has tools, but only at the answer's start if its text has a format, because
  /// such text may contain anything. The schemas of the tools tell which parameters are text if the model
  /// writes text without quotes. The form must outlive this.
  ToolCallParser(const ChatForm& form, MakeCallId make_id);

  /// Takes text and returns the events that are now certain. Texts are never empty; they may end within a
  /// UTF-8 character if the pieces do.
  std::vector<ToolEvent> push(std::string_view text) { return parser_->push(text); }
  /// Call once, when the text has ended. Returns the events of the text held back. A call that ended with its
  /// arguments is complete, even without its closing text: some models close a call with the token that ends
  /// the answer.
  std::vector<ToolEvent> finish() { return parser_->finish(); }

 private:
  std::unique_ptr<AnswerParser> parser_;
};

/// An id for call `index` of an answer, determined by the seed. short_id: nine letters and digits, for
/// templates that accept no others (ChatSyntax::short_ids).
std::string make_call_id(uint64_t seed, int index, bool short_id);

}  // namespace hearth
