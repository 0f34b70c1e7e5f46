// What a client is shown of one generated chat answer: its text up to a stop string, its thinking, its tool calls.
//
// Takes whole characters as TextStream gives them, and finds calls and thinking in them (ToolCallParser); stop strings count
// in the answer's text only, not in thinking or calls. One per generated sequence, on the HTTP thread that answers.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "server/api/answer/token_text.h"
#include "server/chat/tools/tool_call_parser.h"

namespace hearth {

class ChatReader {
 public:
  /// stop: strings that end the answer, none empty.
  ChatReader(ToolParserOptions options, std::vector<std::string> stop);

  /// What can be shown now; texts are not empty. REQUIRES: !stopped().
  std::vector<ToolEvent> push(std::string_view text);
  /// The text has ended: all that was held back. Call once, last.
  std::vector<ToolEvent> finish();

  bool stopped() const { return matcher_.stopped(); }
  const std::string& stop_string() const { return matcher_.stop_string(); }  // empty: none was completed
  bool made_calls() const { return made_calls_; }

 private:
  std::vector<ToolEvent> shown(std::vector<ToolEvent> events);
  void release(std::string text, std::vector<ToolEvent>& out);

  ToolCallParser parser_;
  StopMatcher matcher_;
  bool made_calls_ = false;
};

}  // namespace hearth
