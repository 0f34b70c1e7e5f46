#include "server/chat/tools/call_reader.h"

#include <utility>

#include "server/chat/tools/probe_text.h"

namespace hearth {
namespace {

/// Longer than any name or id. Bounds how much text is held back while a word is incomplete.
constexpr size_t kMaxWordBytes = 256;

bool is_blank(char c) { return probe::kWhiteSpace.find(c) != std::string_view::npos; }

/// Whether c ends a word. '\xEF' is the first byte of U+FF5C, which follows < in DeepSeek's tags.
bool ends_word(char c) {
  return is_blank(c) || std::string_view("<>[]{}()\"'|,").find(c) != std::string_view::npos || c == '\xEF';
}

}  // namespace

void TextWindow::skip_white() {
  while (at < text.size() && is_blank(text[at])) ++at;
}

Match match(TextWindow& window, std::string_view text) {
  size_t at = window.at;
  for (const char wanted : text) {
    if (is_blank(wanted)) continue;
    while (at < window.text.size() && is_blank(window.text[at])) ++at;
    if (at == window.text.size()) return Match::kMore;
    if (window.text[at++] != wanted) return Match::kNo;
  }
  window.at = at;
  return Match::kYes;
}

Match read_word(TextWindow& window, std::string_view next_text, std::string& word) {
  if (word.empty()) window.skip_white();
  const std::string_view next = probe::trim(next_text);
  while (!window.empty()) {
    const char c = window.text[window.at];
    if (ends_word(c) || (!next.empty() && c == next.front())) return word.empty() ? Match::kNo : Match::kYes;
    if (word.size() == kMaxWordBytes) return Match::kNo;
    word += c;
    ++window.at;
  }
  return Match::kMore;
}

void CallSink::begin(std::string name, std::string id) {
  const int index = n_calls_++;
  if (id.empty() && make_id_) id = make_id_(index);
  begun_ = true;
  events_->push_back({ToolEvent::Kind::kCallBegin, std::move(name), index, std::move(id)});
}

void CallSink::arguments(std::string_view text) {
  if (text.empty()) return;
  events_->push_back({ToolEvent::Kind::kArguments, std::string(text), n_calls_ - 1});
}

void CallSink::end(bool whole) {
  begun_ = false;
  events_->push_back({ToolEvent::Kind::kCallEnd, {}, n_calls_ - 1, {}, whole});
}

}  // namespace hearth
