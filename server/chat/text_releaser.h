// Turns text into events, without the white space next to a tool call or next to thinking.
//
// ToolCallParser's parsers use one TextReleaser for answer text and one for thinking.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "server/chat/tools/probe_text.h"
#include "server/chat/tools/tool_call_parser.h"

namespace hearth {

class TextReleaser {
 public:
  TextReleaser(ToolEvent::Kind kind, std::vector<ToolEvent>& events) : kind_(kind), events_(&events) {}

  /// Adds text. White space at the end is held back until more text follows.
  void push(std::string_view text) {
    if (at_edge_) text = probe::trim_start(text);
    if (text.empty()) return;
    at_edge_ = false;
    const size_t solid = probe::trim_end(text).size();
    if (solid > 0) give(std::exchange(held_, {}).append(text.substr(0, solid)));
    held_ += text.substr(solid);
  }

  /// Marks a boundary next to a call or next to thinking. Drops the white space before and after the
  /// boundary.
  void edge() {
    held_.clear();
    at_edge_ = true;
  }

  /// Call when the answer has ended. Emits the white space that was held back.
  void finish() {
    if (!held_.empty()) give(std::exchange(held_, {}));
  }

 private:
  void give(std::string text) {
    if (!events_->empty() && events_->back().kind == kind_) {
      events_->back().text += text;
    } else {
      events_->push_back({kind_, std::move(text)});
    }
  }

  ToolEvent::Kind kind_;
  std::vector<ToolEvent>* events_;
  std::string held_;
  bool at_edge_ = false;
};

/// Returns how many bytes at the beginning of `text` cannot belong to an occurrence of `wanted` that later
/// text completes. These are all bytes, except the longest proper prefix of `wanted` with which `text` ends.
inline size_t certain_before(std::string_view text, std::string_view wanted) {
  const size_t most = std::min(wanted.empty() ? 0 : wanted.size() - 1, text.size());
  for (size_t n = most; n > 0; --n)
    if (text.ends_with(wanted.substr(0, n))) return text.size() - n;
  return text.size();
}

}  // namespace hearth
