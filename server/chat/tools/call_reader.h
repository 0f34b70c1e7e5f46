// Reads one tool call from text that is still being generated: the inner part of ToolCallParser, one class
// for each ToolSyntax::Form. A reader knows what stands within a call; the parser knows what stands around
// calls.
//
// Same thread as the parser.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "server/chat/tools/tool_call_parser.h"

namespace hearth {

/// Generated text of which a part may have been used already.
struct TextWindow {
  std::string text = {};
  size_t at = 0;    // what comes next
  size_t kept = 0;  // everything before has become an event for good
  bool ended = false;

  std::string_view rest() const { return std::string_view(text).substr(at); }
  bool empty() const { return at == text.size(); }
  void skip_white();
};

enum class Match { kYes, kNo, kMore };

/// Compares what comes next with a text, white space on either side left out of account. Moves on if it
/// is kYes. kMore: what is there agrees, but is not all; also if the text has ended. An empty or white
/// text always matches.
Match match(TextWindow& window, std::string_view text);

/// Reads the letters of a name or id up to what cannot belong to one, and moves on. kMore: no end is in
/// sight. kNo: there are none, or too many.
Match read_word(TextWindow& window, std::string_view next_text, std::string& word);

/// Where readers put what they read: the events of the current call.
class CallSink {
 public:
  CallSink(std::function<std::string(int)> make_id, std::vector<ToolEvent>& events)
      : make_id_(std::move(make_id)), events_(&events) {}

  /// id: empty if one is to be made.
  void begin(std::string name, std::string id);
  void arguments(std::string_view text);
  void end(bool whole);
  bool begun() const { return begun_; }  // a call is begun and not ended

 private:
  std::function<std::string(int)> make_id_;
  std::vector<ToolEvent>* events_;
  int n_calls_ = 0;
  bool begun_ = false;
};

class CallReader {
 public:
  enum class Status {
    kMore,
    kDone,  // the call is complete; the sink has begun it and has all arguments
    kBad,   // this is no call, or it is broken off
    kText,  // this is no call but the beginning of text (ToolSyntax::text_recipient)
  };
  virtual ~CallReader() = default;
  /// Goes on reading. Sets window.kept when it has given everything before to the sink.
  virtual Status read(TextWindow& window, CallSink& sink) = 0;
};

/// syntax and tools must outlive the reader.
std::unique_ptr<CallReader> make_call_reader(const ToolSyntax& syntax, const Json& tools);
std::unique_ptr<CallReader> make_json_call_reader(const ToolSyntax& syntax, const Json& tools);

/// The schema of a function's parameters in the request's tools; null if it has none.
const Json* find_parameters(const Json& tools, std::string_view name);
bool has_tool(const Json& tools, std::string_view name);

}  // namespace hearth
