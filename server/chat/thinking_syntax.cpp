#include "server/chat/thinking_syntax.h"

#include <array>
#include <cctype>
#include <optional>

#include "server/chat/tools/probe_text.h"
#include "server/json/json.h"

namespace hearth {
namespace {

constexpr std::string_view kThought = "hearth thinks this";

std::optional<std::string> render(const ChatTemplate& chat_template, const Json& messages, bool prompt) {
  try {
    return chat_template.render(messages, nullptr, prompt);
  } catch (const TemplateError&) {
    return std::nullopt;
  }
}

/// Renders a past message with reasoning, and returns the texts before and after the reasoning if both are
/// tags. Otherwise returns empty texts: some templates print the reasoning as a separate turn, without tags.
ThinkingSyntax from_rendering(const ChatTemplate& chat_template) {
  Json messages = Json::array({{{"role", "user"}, {"content", "hearth asks this"}}});
  const std::optional<std::string> prompt = render(chat_template, messages, true);
  messages.push_back(
      {{"role", "assistant"}, {"reasoning_content", kThought}, {"content", probe::kAnswerText}});
  const std::optional<std::string> rendered = render(chat_template, messages, false);
  const size_t thought = rendered ? rendered->find(kThought) : probe::kNone;
  const size_t text = rendered ? rendered->find(probe::kAnswerText) : probe::kNone;
  if (!prompt || thought == probe::kNone || text == probe::kNone || text < thought) return {};
  const std::string_view all(*rendered);
  const size_t behind = thought + kThought.size();
  const std::string_view before = probe::trim(all.substr(0, thought));
  const std::string_view close = probe::trim(all.substr(behind, text - behind));
  const size_t tag = before.empty() ? probe::kNone : probe::tag_around(before, before.size() - 1);
  if (tag == probe::kNone || close.empty() || probe::tag_around(close, close.size() - 1) != 0) return {};
  return {std::string(before.substr(tag)), std::string(close)};
}

bool is_word(std::string_view name) {
  for (const char c : name)
    if (std::isalnum(static_cast<unsigned char>(c)) == 0 && c != '_' && c != ':' && c != '-') return false;
  return !name.empty();
}

bool means_thinking(std::string_view name) {
  std::string lower;
  for (const char c : name) lower += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  for (const char* word : {"think", "thought", "reason"})
    if (lower.find(word) != std::string::npos) return true;
  return false;
}

/// A style of tags: the opening tag is `open` NAME `end`, the closing tag is `close` NAME `end`.
struct TagStyle {
  std::string_view open, close, end;
};
constexpr std::array<TagStyle, 4> kStyles{
    {{"<", "</", ">"}, {"[", "[/", "]"}, {"<|START_", "<|END_", "|>"}, {"<|begin_of_", "<|end_of_", "|>"}}};

/// Searches the template's source for a closing tag whose name suggests thinking, or for Gemma 4's channel.
ThinkingSyntax from_source(std::string_view source) {
  constexpr std::string_view kChannel = "<|channel>thought", kChannelEnd = "<channel|>";
  if (source.find(kChannel) != probe::kNone && source.find(kChannelEnd) != probe::kNone)
    return {std::string(kChannel), std::string(kChannelEnd)};
  for (const TagStyle& style : kStyles) {
    for (size_t at = source.find(style.close); at != probe::kNone; at = source.find(style.close, at + 1)) {
      const size_t name = at + style.close.size();
      const size_t end = source.find(style.end, name);
      if (end == probe::kNone) break;
      const std::string_view word = source.substr(name, end - name);
      if (!is_word(word) || !means_thinking(word)) continue;
      const std::string text(word), tail(style.end);
      return {std::string(style.open) + text + tail, std::string(style.close) + text + tail};
    }
  }
  return {};
}

}  // namespace

ThinkingSyntax derive_thinking_syntax(const ChatTemplate& chat_template) {
  if (chat_template.source().find("<|channel|>") != std::string::npos) return {};  // harmony
  ThinkingSyntax syntax = from_rendering(chat_template);
  return syntax.exists() ? syntax : from_source(chat_template.source());
}

bool prompt_opens_thinking(const ThinkingSyntax& syntax, std::string_view prompt) {
  return syntax.exists() && probe::trim_end(prompt).ends_with(syntax.open);
}

}  // namespace hearth
