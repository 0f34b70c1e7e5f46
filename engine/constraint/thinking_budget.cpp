// See the header.
#include "engine/constraint/thinking_budget.h"

#include <algorithm>
#include <utility>

namespace hearth {
namespace {

constexpr std::string_view kBlanks = " \t\r\n";

/// If a character or a tag has begun when the limit is reached, the ending waits until it is complete, but at
/// most this many tokens. A character has at most four bytes; the longest tags have some tens of letters.
constexpr int kMostWaiting = 32;

/// Whether the text ends inside a character of UTF-8.
bool ends_inside_character(std::string_view text) {
  for (size_t n = 1; n <= 3 && n <= text.size(); ++n) {
    const auto byte = static_cast<unsigned char>(text[text.size() - n]);
    if ((byte & 0xC0) == 0x80) continue;
    const size_t length = byte >= 0xF0 ? 4 : byte >= 0xE0 ? 3 : byte >= 0xC0 ? 2 : 1;
    return length > n;
  }
  return false;
}

/// Whether the text ends with a beginning of the tag.
bool ends_inside_tag(std::string_view text, std::string_view tag) {
  for (size_t n = std::min(text.size(), tag.size() - 1); n > 0; --n)
    if (text.ends_with(tag.substr(0, n))) return true;
  return false;
}

}  // namespace

bool ThinkingBudget::ending_closes() const {
  std::string text;
  for (const int32_t token : ending) text += trie->bytes(token);
  return std::ranges::any_of(
      closes, [&text](const std::string& close) { return text.find(close) != std::string::npos; });
}

ThinkingState::ThinkingState(std::shared_ptr<const ThinkingBudget> budget) : budget_(std::move(budget)) {
  for (const std::string& close : budget_->closes) longest_close_ = std::max(longest_close_, close.size());
  if (!budget_->begun) return;
  open({});
  end_if_due();
}

void ThinkingState::accept(int32_t token) {
  const bool was_inside = inside_;
  text_ += budget_->trie->bytes(token);
  if (!forced_.empty()) forced_ = forced_.front() == token ? forced_.subspan(1) : std::span<const int32_t>{};
  if (was_inside) ++n_used_;
  if (inside_) {
    look_for_closing();
  } else if (may_open_) {
    look_for_opening();
  }
  end_if_due();
}

/// Thinking begins. behind: the text after its tag.
void ThinkingState::open(std::string_view behind) {
  inside_ = true;
  text_ = std::string(behind);
  look_for_closing();
}

void ThinkingState::look_for_opening() {
  const std::string& tag = budget_->open;
  const size_t first = text_.find_first_not_of(kBlanks);
  if (budget_->opens_anywhere) {
    const size_t at = text_.find(tag);
    if (at != std::string::npos) return open(std::string(text_.substr(at + tag.size())));
    if (text_.size() >= tag.size()) text_.erase(0, text_.size() - tag.size() + 1);
    return;
  }
  if (first == std::string::npos) return text_.clear();
  const std::string_view solid = std::string_view(text_).substr(first);
  if (solid.starts_with(tag)) return open(std::string(solid.substr(tag.size())));
  may_open_ = std::string_view(tag).starts_with(solid);
}

void ThinkingState::look_for_closing() {
  for (const std::string& close : budget_->closes) {
    const size_t at = text_.find(close);
    if (at == std::string::npos) continue;
    inside_ = false;
    text_.erase(0, at + close.size());
    return look_for_opening();
  }
  // Keep what a tag or a character may begin in.
  const size_t most = std::max<size_t>(longest_close_, 4) - 1;
  if (text_.size() > most) text_.erase(0, text_.size() - most);
}

/// Whether the thinking so far ends inside a character or a tag.
bool ThinkingState::is_torn() const {
  if (ends_inside_character(text_)) return true;
  return std::ranges::any_of(budget_->closes,
                             [this](const std::string& close) { return ends_inside_tag(text_, close); });
}

void ThinkingState::end_if_due() {
  if (!inside_ || !forced_.empty() || n_used_ < budget_->n_tokens) {
    n_waited_ = 0;
    return;
  }
  if (is_torn() && n_waited_++ < kMostWaiting) return;
  forced_ = budget_->ending;
}

}  // namespace hearth
