// Splits a generated chat answer into text, thinking and tool calls. A stop string in the text ends the
// answer.
//
// ChatReader receives whole characters from a TextStream and finds calls and thinking in them with a
// ToolCallParser. Stop strings are searched only in the answer's text, not in thinking or calls. Each
// generated sequence has its own ChatReader, on the HTTP thread that answers the request.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "server/api/answer/token_text.h"
#include "server/chat/tools/tool_call_parser.h"

namespace hearth {

class ChatReader {
 public:
  /// stop: strings that end the answer; none is empty. The form must outlive this object.
  ChatReader(const ChatForm& form, MakeCallId make_id, std::vector<std::string> stop);

  /// Adds text, and returns the parts that later text can no longer change. The texts of parts are not empty.
  /// REQUIRES: !stopped().
  std::vector<ToolEvent> push(std::string_view text);
  /// Call once, when the text has ended. Returns the text that was held back.
  std::vector<ToolEvent> finish();

  bool stopped() const { return matcher_.stopped(); }
  const std::string& stop_string() const { return matcher_.stop_string(); }  // empty if none was found
  bool made_calls() const { return made_calls_; }

 private:
  std::vector<ToolEvent> shown(std::vector<ToolEvent> events);
  void release(std::string text, std::vector<ToolEvent>& out);

  ToolCallParser parser_;
  StopMatcher matcher_;
  bool made_calls_ = false;
};

}  // namespace hearth
