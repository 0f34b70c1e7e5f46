#include "server/api/answer/chat_reader.h"

#include <utility>

namespace hearth {

using Kind = ToolEvent::Kind;

ChatReader::ChatReader(const ChatForm& form, MakeCallId make_id, std::vector<std::string> stop)
    : parser_(form, std::move(make_id)), matcher_(std::move(stop)) {}

std::vector<ToolEvent> ChatReader::push(std::string_view text) { return shown(parser_.push(text)); }

std::vector<ToolEvent> ChatReader::finish() {
  if (stopped()) return {};
  std::vector<ToolEvent> out = shown(parser_.finish());
  if (!stopped()) release(matcher_.finish(), out);
  return out;
}

std::vector<ToolEvent> ChatReader::shown(std::vector<ToolEvent> events) {
  std::vector<ToolEvent> out;
  for (ToolEvent& event : events) {
    if (event.kind == Kind::kText) {
      release(matcher_.push(event.text), out);
      if (stopped()) return out;
      continue;
    }
    release(matcher_.finish(), out);  // a stop string does not continue into a call or thinking
    made_calls_ = made_calls_ || event.kind == Kind::kCallBegin;
    out.push_back(std::move(event));
  }
  return out;
}

void ChatReader::release(std::string text, std::vector<ToolEvent>& out) {
  if (!text.empty()) out.push_back({.kind = Kind::kText, .text = std::move(text)});
}

}  // namespace hearth
