// Converts tokens to text, one token at a time. HTTP threads call it while a generation runs, with one object
// per sequence.
#include <algorithm>
#include <string>
#include <utility>

#include "engine/tokenizer/tokenizer.h"
#include "kernels/base/utf8.h"

namespace hearth {
namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";  // U+FFFD

/// Moves complete characters and replacements from pending to out; an incomplete character stays in pending.
void take_whole_characters(std::string& pending, std::string& out) {
  std::string_view rest = pending;
  while (!rest.empty()) {
    const size_t valid = utf8_valid_prefix(rest);
    out.append(rest.substr(0, valid));
    rest.remove_prefix(valid);
    if (rest.empty()) break;
    const Utf8Char front = utf8_front(rest);
    if (front.status == Utf8Status::kIncomplete) break;
    out.append(kReplacement);
    rest.remove_prefix(front.length);
  }
  pending.erase(0, pending.size() - rest.size());
}

}  // namespace

Detokenizer::Detokenizer(const Tokenizer& tokenizer, bool at_start, bool with_special,
                         std::vector<int32_t> shown)
    : tokenizer_(&tokenizer),
      strip_space_(at_start && tokenizer.strips_leading_space()),
      with_special_(with_special),
      shown_(std::move(shown)) {}

std::string Detokenizer::push(int32_t token) {
  const size_t before = pending_.size();
  const bool show = with_special_ || std::binary_search(shown_.begin(), shown_.end(), token);
  tokenizer_->append_bytes(token, show, pending_);
  // A token may append no text, as a hidden begin token does. After such a token, the first word is still to
  // come.
  if (strip_space_ && pending_.size() > before) {
    strip_space_ = false;
    if (pending_[before] == ' ') pending_.erase(before, 1);
  }
  std::string out;
  take_whole_characters(pending_, out);
  return out;
}

std::string Detokenizer::finish() {
  std::string out;
  // The rest is the beginning of one incomplete character. One replacement character stands for all of it.
  if (!pending_.empty()) out = kReplacement;
  pending_.clear();
  return out;
}

std::string Tokenizer::decode(const std::vector<int32_t>& tokens, bool with_special) const {
  Detokenizer detokenizer(*this, true, with_special);
  std::string out;
  for (const int32_t token : tokens) out += detokenizer.push(token);
  return out + detokenizer.finish();
}

}  // namespace hearth
