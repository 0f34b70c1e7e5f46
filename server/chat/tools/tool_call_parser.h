// Finds tool calls and thinking in what a model generates, while it is being generated.
//
// Text goes in in pieces of any size; events come out. How the text was cut does not change the events but
// for where the texts of neighbouring events of one kind are cut: joined, they are the same. What might
// become a call is held back until that is decided. What turns out not to be one is text, with nothing
// lost: a call is announced (kCallBegin) only once its name and the beginning of its arguments are read,
// and if it breaks off later, its arguments end there and what follows is text. White space between text,
// thinking and calls belongs to none of them and is dropped.
//
// One object per generated sequence, on the HTTP thread that answers the request.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "server/chat/thinking_syntax.h"
#include "server/chat/tools/tool_syntax.h"
#include "server/json/json.h"

namespace hearth {

struct ToolEvent {
  enum class Kind { kText, kReasoning, kCallBegin, kArguments, kCallEnd };
  Kind kind = Kind::kText;
  std::string text = {};  // kText, kReasoning, kArguments: what follows. kCallBegin: the function's name
  int index = 0;          // of the call, from 0
  std::string id = {};    // of kCallBegin
  bool whole = true;      // of kCallEnd: whether the arguments are complete
};

struct ToolParserOptions {
  ToolSyntax syntax;
  ThinkingSyntax thinking;
  bool in_thinking = false;  // the prompt ended within thinking; see prompt_opens_thinking()
  bool find_calls = true;    // false: thinking only, for requests without tools
  bool only_at_start =
      false;  // calls are looked for at the answer's start only: a text with a form may hold anything
  /// The request's tools, or null. Their schemas tell which parameters are text where a model writes
  /// text without quotes.
  Json tools = nullptr;
  /// The id of the call with this index, where the syntax has none. Called once a call, in order.
  std::function<std::string(int)> make_id;
};

/// What ToolCallParser does, for one way to lay out answers.
class AnswerParser {
 public:
  virtual ~AnswerParser() = default;
  virtual std::vector<ToolEvent> push(std::string_view text) = 0;
  virtual std::vector<ToolEvent> finish() = 0;
};

class ToolCallParser {
 public:
  explicit ToolCallParser(ToolParserOptions options);

  /// The events that are certain now. Texts are never empty; they may end within a UTF-8 character if
  /// pieces do.
  std::vector<ToolEvent> push(std::string_view text) { return parser_->push(text); }
  /// The text has ended: the events of what was held back. Call once, last. A call that ended with its
  /// arguments is whole, even without what closes it: some models close a call with the token that ends
  /// the answer.
  std::vector<ToolEvent> finish() { return parser_->finish(); }

 private:
  std::unique_ptr<AnswerParser> parser_;
};

/// An id for the call `index` of an answer; the same seed makes the same ids. short_id: nine letters and
/// digits, for templates that take no others (ChatTemplate::wants_short_ids()).
std::string make_call_id(uint64_t seed, int index, bool short_id);

}  // namespace hearth
