// See the header.
#include "server/api/answer/answer_shape.h"

namespace hearth {

void append(std::vector<SaidItem>& items, const ToolEvent& part) {
  using Kind = ToolEvent::Kind;
  const auto add_text = [&items](SaidItem::Kind kind, const std::string& text) {
    if (items.empty() || items.back().kind != kind) items.push_back({.kind = kind});
    items.back().text += text;
  };
  switch (part.kind) {
    case Kind::kText:
      return add_text(SaidItem::Kind::kText, part.text);
    case Kind::kReasoning:
      return add_text(SaidItem::Kind::kReasoning, part.text);
    case Kind::kCallBegin:
      items.push_back({.kind = SaidItem::Kind::kCall, .name = part.text, .id = part.id});
      return;
    case Kind::kArguments:
      items.back().text += part.text;
      return;
    case Kind::kCallEnd:
      items.back().whole = part.whole;
      return;
  }
}

std::string joined(std::span<const SaidItem> items, SaidItem::Kind kind) {
  std::string text;
  for (const SaidItem& item : items) {
    if (item.kind == kind) text += item.text;
  }
  return text;
}

std::optional<Json> arguments_object(const SaidItem& call) {
  if (!call.whole) return std::nullopt;
  Json json = Json::parse(call.text, nullptr, false);
  if (!json.is_object()) return std::nullopt;
  return json;
}

std::string sse_event(std::string_view data) {
  std::string event = "data: ";
  event += data;
  event += "\n\n";
  return event;
}

const char* finish_reason(ChoiceEnd end) {
  switch (end) {
    case ChoiceEnd::kLength:
      return "length";
    case ChoiceEnd::kToolCalls:
      return "tool_calls";
    case ChoiceEnd::kStop:
      break;
  }
  return "stop";
}

}  // namespace hearth
