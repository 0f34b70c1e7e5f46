#include "server/chat/chat_syntax.h"

#include <algorithm>

namespace hearth {
namespace {

/// Adds the tags in a text to `out`. A tag is <...> or [CAPITALS] without white space inside.
void collect_tags(std::string_view text, std::vector<std::string>& out) {
  for (size_t at = 0; at < text.size(); ++at) {
    if (text[at] != '<' && text[at] != '[') continue;
    const size_t end = text.find(text[at] == '<' ? '>' : ']', at);
    if (end == std::string_view::npos) continue;
    const std::string tag(text.substr(at, end + 1 - at));
    const std::string_view inside = std::string_view(tag).substr(1, tag.size() - 2);
    const bool capitals = inside.find_first_not_of("ABCDEFGHIJKLMNOPQRSTUVWXYZ_/") == std::string_view::npos;
    const bool is_tag = tag[0] == '<' ? inside.find_first_of(" \n<{\"") == std::string_view::npos : capitals;
    if (inside.empty() || !is_tag) continue;
    if (std::find(out.begin(), out.end(), tag) == out.end()) out.push_back(tag);
    at = end;
  }
}

}  // namespace

ThinkingMode ChatSyntax::thinking_after(std::string_view prompt) const {
  if (!thinks()) return ThinkingMode::kNone;
  if (calls.form == ToolSyntax::Form::kHarmony) return ThinkingMode::kMayBegin;
  return prompt_opens_thinking(thinking, prompt) ? ThinkingMode::kBegun : ThinkingMode::kMayBegin;
}

std::vector<std::string> ChatSyntax::tags() const {
  if (calls.form == ToolSyntax::Form::kHarmony)
    return {"<|start|>", "<|channel|>", "<|message|>", "<|end|>", "<|constrain|>"};
  std::vector<std::string> tags;
  for (const std::string* text : {&thinking.open, &thinking.close}) collect_tags(*text, tags);
  collect_tags(calls.section_begin + calls.call_begin, tags);
  for (const ToolSyntax::Piece& piece : calls.pieces) collect_tags(piece.text, tags);
  for (const std::string* text :
       {&calls.name_end, &calls.key_begin, &calls.key_end, &calls.value_end, &calls.value_separator}) {
    collect_tags(*text, tags);
  }
  if (!calls.string_mark.empty()) tags.push_back(calls.string_mark);
  collect_tags(calls.call_end + calls.separator + calls.call_begin, tags);
  collect_tags(calls.call_end + calls.section_end, tags);
  return tags;
}

ChatSyntax derive_chat_syntax(const ChatTemplate& chat_template, std::span<const std::string> end_texts) {
  return {.calls = derive_tool_syntax(chat_template, end_texts),
          .thinking = derive_thinking_syntax(chat_template),
          .short_ids = chat_template.wants_short_ids()};
}

}  // namespace hearth
