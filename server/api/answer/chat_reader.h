// Splits one generated chat answer into what its client sees: text up to a stop string, thinking, and tool
// calls.
//
// ChatReader receives whole characters from TextStream and finds calls and thinking in them (ToolCallParser).
// Stop strings apply only to the answer's text, not to thinking or calls. Each generated sequence has its own
// ChatReader, on the HTTP thread that answers.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "server/api/answer/token_text.h"
#include "server/chat/tools/tool_call_parser.h"

namespace hearth {

class ChatReader {
 public:
  /// stop: strings that end the answer, none of them empty. The form must outlive this object.
  ChatReader(const ChatForm& form, MakeCallId make_id, std::vector<std::string> stop);

  /// Takes text and returns the parts that can be shown now; their texts are not empty. REQUIRES: !stopped().
  std::vector<ToolEvent> push(std::string_view text);
  /// Call once, when the text has ended. Returns everything that was held back.
  std::vector<ToolEvent> finish();

  bool stopped() const { return matcher_.stopped(); }
  const std::string& stop_string() const { return matcher_.stop_string(); }  // empty: none found
  bool made_calls() const { return made_calls_; }

 private:
  std::vector<ToolEvent> shown(std::vector<ToolEvent> events);
  void release(std::string text, std::vector<ToolEvent>& out);

  ToolCallParser parser_;
  StopMatcher matcher_;
  bool made_calls_ = false;
};

}  // namespace hearth
