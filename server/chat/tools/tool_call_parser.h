// Finds tool calls and thinking in a model's output while the output is generated.
//
// push() takes text in pieces of any size and returns events. The sizes of the pieces affect only where a run
// of events of one kind is split; the joined texts are always equal. Text that may turn out to be a call is
// held back until this is decided. If it is not a call, it is returned as text, without loss. A call is
// announced (kCallBegin) only after its name and the beginning of its arguments have arrived. If the call
// breaks off later, its arguments end there and the rest becomes text. White space between text, thinking and
// calls is dropped.
//
// Each generated sequence has one object, which belongs to the HTTP thread that answers the request.
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
  std::string text =
      {};         // kText, kReasoning, kArguments: the next part of the text. kCallBegin: the function's name
  int index = 0;  // index of the call, from 0
  std::string id = {};  // kCallBegin: the call's id
  bool whole = true;    // kCallEnd: whether the arguments are complete
};

/// Makes an id for the call with this index. Used if the syntax has no ids, once per call and in order.
using MakeCallId = std::function<std::string(int)>;

/// The interface of the parsers behind ToolCallParser. There is one parser for each layout of answers.
class AnswerParser {
 public:
  virtual ~AnswerParser() = default;
  virtual std::vector<ToolEvent> push(std::string_view text) = 0;
  virtual std::vector<ToolEvent> finish() = 0;
};

class ToolCallParser {
 public:
  /// The parser looks for calls if the form has tools. If the text must have a format, it looks for them only
  /// at the start of the answer, because such text may contain anything. If the model writes text parameters
  /// without quotes, the tools' schemas determine which parameters are text. The form must outlive this
  /// object.
  ToolCallParser(const ChatForm& form, MakeCallId make_id);

  /// Adds text and returns the events that are now certain. Texts in events are never empty. They may end
  /// inside a UTF-8 character if the added pieces do.
  std::vector<ToolEvent> push(std::string_view text) { return parser_->push(text); }
  /// Must be called once, when the text has ended. Returns the events of text that was held back. A call
  /// whose arguments are complete is complete even without its closing text, because some models close a call
  /// with the token that ends the answer.
  std::vector<ToolEvent> finish() { return parser_->finish(); }

 private:
  std::unique_ptr<AnswerParser> parser_;
};

/// Returns the id that the seed determines for call `index` of an answer. short_id: the id has nine letters
/// and digits, for templates that accept no other ids (ChatSyntax::short_ids).
std::string make_call_id(uint64_t seed, int index, bool short_id);

}  // namespace hearth
