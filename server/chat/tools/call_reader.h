// Reads one tool call from text that is still being generated. Each ToolSyntax::Form has a reader class for
// the text inside a call. ToolCallParser reads the texts around calls and uses these readers.
//
// A reader runs on the thread of the ToolCallParser that owns it.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "server/chat/tools/tool_call_parser.h"

namespace hearth {

/// Generated text that is being read. Everything before `at` has been read.
struct TextWindow {
  std::string text = {};
  size_t at = 0;    // next position to read
  size_t kept = 0;  // end of the text that has become events, which cannot be taken back
  bool ended = false;

  std::string_view rest() const { return std::string_view(text).substr(at); }
  bool empty() const { return at == text.size(); }
  void skip_white();
};

enum class Match { kYes, kNo, kMore };

/// Compares the window's next characters with `text`, ignoring all white space in both. kYes: they match all
/// of `text`, and the window moves past them. kMore: they match so far, but the window ends before `text`.
/// kNo: a character differs. An empty or blank `text` always matches.
Match match(TextWindow& window, std::string_view text);

/// Reads a name or id, and moves past it. It ends before a blank, a bracket or another character that names
/// do not contain, or before the first character of next_text, the text that follows in the syntax. kMore:
/// the end has not arrived yet. kNo: the word is empty or too long.
Match read_word(TextWindow& window, std::string_view next_text, std::string& word);

/// Turns the parts of calls, which a CallReader passes to it, into events.
class CallSink {
 public:
  CallSink(MakeCallId make_id, std::vector<ToolEvent>& events)
      : make_id_(std::move(make_id)), events_(&events) {}

  /// id: if empty, an id is generated.
  void begin(std::string name, std::string id);
  void arguments(std::string_view text);
  void end(bool whole);
  bool begun() const { return begun_; }  // true between begin() and end()

 private:
  MakeCallId make_id_;
  std::vector<ToolEvent>* events_;
  int n_calls_ = 0;
  bool begun_ = false;
};

class CallReader {
 public:
  enum class Status {
    kMore,
    kDone,  // the call is complete; its name and all arguments have been passed to the sink
    kBad,   // this is not a call, or the call breaks off
    kText,  // the text is not a call but an answer addressed to ToolSyntax::text_recipient
  };
  virtual ~CallReader() = default;
  /// Reads the next text of the call. Sets window.kept to the end of the text that has been passed to the
  /// sink.
  virtual Status read(TextWindow& window, CallSink& sink) = 0;
};

/// syntax and tools must outlive the reader.
std::unique_ptr<CallReader> make_call_reader(const ToolSyntax& syntax, const Json& tools);
std::unique_ptr<CallReader> make_json_call_reader(const ToolSyntax& syntax, const Json& tools);

/// Returns the parameter schema of a function among the request's tools, or null if the function has none.
const Json* find_parameters(const Json& tools, std::string_view name);
bool has_tool(const Json& tools, std::string_view name);

}  // namespace hearth
