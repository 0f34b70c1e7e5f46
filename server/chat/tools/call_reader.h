// Reads one tool call from text that is still being generated: the inner part of ToolCallParser, with one
// class per ToolSyntax::Form. A reader knows the inside of a call; the parser knows the texts around calls.
//
// Same thread as the parser.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "server/chat/tools/tool_call_parser.h"

namespace hearth {

/// Generated text, part of which may have been used already.
struct TextWindow {
  std::string text = {};
  size_t at = 0;    // next position to read
  size_t kept = 0;  // everything before it has irrevocably become events
  bool ended = false;

  std::string_view rest() const { return std::string_view(text).substr(at); }
  bool empty() const { return at == text.size(); }
  void skip_white();
};

enum class Match { kYes, kNo, kMore };

/// Compares the next text with `text`, ignoring white space at either end. Advances on kYes. kMore: it agrees
/// so far but is incomplete, even if the text has ended. An empty or blank text always matches.
Match match(TextWindow& window, std::string_view text);

/// Reads a name or id up to a character that cannot belong to it, and advances. kMore: its end is not yet
/// here. kNo: it is empty or too long.
Match read_word(TextWindow& window, std::string_view next_text, std::string& word);

/// Collects the events of the current call from readers.
class CallSink {
 public:
  CallSink(MakeCallId make_id, std::vector<ToolEvent>& events)
      : make_id_(std::move(make_id)), events_(&events) {}

  /// id: empty if one must be made.
  void begin(std::string name, std::string id);
  void arguments(std::string_view text);
  void end(bool whole);
  bool begun() const { return begun_; }  // a call has begun and not ended

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
    kDone,  // the call is complete; the sink has begun it and has all arguments
    kBad,   // this is not a call, or it is broken off
    kText,  // this is not a call but the beginning of text (ToolSyntax::text_recipient)
  };
  virtual ~CallReader() = default;
  /// Continues reading. Sets window.kept after passing everything before it to the sink.
  virtual Status read(TextWindow& window, CallSink& sink) = 0;
};

/// syntax and tools must outlive the reader.
std::unique_ptr<CallReader> make_call_reader(const ToolSyntax& syntax, const Json& tools);
std::unique_ptr<CallReader> make_json_call_reader(const ToolSyntax& syntax, const Json& tools);

/// The schema of a function's parameters in the request's tools; null if it has none.
const Json* find_parameters(const Json& tools, std::string_view name);
bool has_tool(const Json& tools, std::string_view name);

}  // namespace hearth
