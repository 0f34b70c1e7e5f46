// Implements cut_texts() and sample_text().
#include "profiler/predictors/training_text.h"

#include <algorithm>
#include <cstdint>
#include <stdexcept>
#include <utility>

#include "profiler/activity/text_feed.h"
#include "profiler/calibration/next_token.h"

namespace hearth {
namespace {

// With fewer windows, training would see the same few tokens over and over.
constexpr size_t kMinTrainWindows = 8;

class Cutter {
 public:
  Cutter(const Tokenizer& tokenizer, const TextCut& cut)
      : tokenizer_(tokenizer), n_context_(static_cast<size_t>(cut.n_context)) {}

  /// Returns the text's whole windows.
  std::vector<int32_t> windows(const NamedText& text, int32_t& bos) {
    std::vector<int32_t> tokens = tokenizer_.encode(text.text, true, false);
    n_tokens_ += tokens.size();
    // If the model expects a begin token, the tokenizer adds one to the beginning of the text. The first
    // token of every other window is replaced by a begin token.
    if (!tokens.empty() && tokenizer_.bos() >= 0 && tokens.front() == tokenizer_.bos()) bos = tokens.front();
    tokens.resize(tokens.size() / n_context_ * n_context_);
    for (size_t at = 0; bos >= 0 && at < tokens.size(); at += n_context_) tokens[at] = bos;
    return tokens;
  }

  void append(std::vector<int32_t>& to, const std::vector<int32_t>& from, size_t begin, size_t end) const {
    to.insert(to.end(), from.begin() + static_cast<ptrdiff_t>(begin * n_context_),
              from.begin() + static_cast<ptrdiff_t>(end * n_context_));
  }

  /// Keeps at least one window, and at most as many windows as have n_tokens tokens together. The kept
  /// windows are spread evenly over the text, and mixed so that the first windows represent all texts.
  void thin_out(std::vector<int32_t>& text, int64_t n_tokens) const {
    const size_t n_windows = text.size() / n_context_;
    const size_t n = std::max<size_t>(1, static_cast<size_t>(n_tokens) / n_context_);
    std::vector<size_t> kept = spread(n, n_windows);
    // Takes every 7th window from the first on, then every 7th from the second on, and so forth.
    constexpr size_t kStride = 7;
    std::vector<int32_t> out;
    for (size_t first = 0; first < kStride; ++first) {
      for (size_t i = first; i < kept.size(); i += kStride) append(out, text, kept[i], kept[i] + 1);
    }
    text = std::move(out);
  }

  size_t n_tokens() const { return n_tokens_; }
  size_t n_context() const { return n_context_; }

 private:
  const Tokenizer& tokenizer_;
  size_t n_context_, n_tokens_ = 0;
};

}  // namespace

TrainingText cut_texts(const Tokenizer& tokenizer, std::span<const NamedText> texts,
                       std::span<const NamedText> held_out, const TextCut& cut) {
  Cutter cutter(tokenizer, cut);
  TrainingText out;
  for (const NamedText& text : texts) {
    const std::vector<int32_t> tokens = cutter.windows(text, out.bos);
    const size_t n = tokens.size() / cutter.n_context();
    const size_t n_held_out = held_out.empty() ? n / 10 : 0;
    const size_t n_train = n - n_held_out - n / 10;
    cutter.append(out.train, tokens, 0, n_train);
    cutter.append(out.tune, tokens, n_train, n - n_held_out);
    cutter.append(out.held_out, tokens, n - n_held_out, n);
  }
  const size_t n_tokens = cutter.n_tokens();
  for (const NamedText& text : held_out) {
    const std::vector<int32_t> tokens = cutter.windows(text, out.bos);
    out.held_out.insert(out.held_out.end(), tokens.begin(), tokens.end());
  }
  if (out.train.size() < kMinTrainWindows * cutter.n_context() || out.tune.empty() ||
      (out.held_out.empty() && held_out.empty())) {
    throw std::runtime_error(
        texts.front().name + (texts.size() > 1 ? " and the other texts have " : ": the text has ") +
        std::to_string(n_tokens) + " tokens, but training needs at least " +
        std::to_string(kMinTrainWindows + 2) + " windows of " + std::to_string(cut.n_context) +
        " tokens in one text, because part of each text is held out; give a longer text or a smaller "
        "--window.");
  }
  if (out.held_out.empty()) {
    throw std::runtime_error(held_out.front().name + ": the held-out text has less than one window of " +
                             std::to_string(cut.n_context) +
                             " tokens; give a longer one or a smaller --window.");
  }
  cutter.thin_out(out.train, cut.n_train);
  cutter.thin_out(out.tune, cut.n_tune);
  cutter.thin_out(out.held_out, cut.n_tune);
  return out;
}

namespace {

/// Reads up to n bytes from position `begin` on.
std::string read(TextInput& in, uint64_t begin, size_t n) {
  if (begin > 0) in.seek(begin);
  std::string text = in.read(n);
  // Text has no zero bytes, but programs and archives have some near their beginning.
  const size_t zero = text.find('\0');
  if (zero != std::string::npos) {
    in.refuse("it is not text: byte " + std::to_string(begin + zero) + " of it is zero");
  }
  return text;
}

/// Returns the text between its first and its last line break. If it has no suitable line breaks, cuts at
/// spaces, or else between characters.
std::string whole_lines(std::string text) {
  for (const char* breaks : {"\n", " \t"}) {
    const size_t first = text.find_first_of(breaks), last = text.find_last_of(breaks);
    if (last != std::string::npos && last - first >= text.size() / 2) {
      return text.substr(first + 1, last - first - 1) + '\n';
    }
  }
  const auto inside = [](char c) { return (static_cast<unsigned char>(c) & 0xc0) == 0x80; };
  const size_t first = static_cast<size_t>(std::ranges::find_if_not(text, inside) - text.begin());
  size_t last = text.size();
  // Find the first byte of the last character, which may be incomplete. The next statement drops this
  // character.
  while (last > first && inside(text[last - 1])) --last;
  return text.substr(first, std::max(last, first + 1) - first - 1) + '\n';
}

}  // namespace

NamedText sample_text(const std::string& path, size_t max_bytes, std::string_view option) {
  TextInput in(path, "give " + std::string(option) + " a file of plain text");
  max_bytes = std::max(max_bytes, kStretchBytes);
  std::string text;
  if (in.size() <= max_bytes) {
    text = read(in, 0, max_bytes);
  } else {
    const uint64_t n = max_bytes / kStretchBytes;
    for (uint64_t i = 0; i < n; ++i) {
      // Read from the middles of n equal parts. The product with i stays far below 2^64.
      const uint64_t begin = in.size() / n * i + (in.size() / n - kStretchBytes) / 2;
      text += whole_lines(read(in, begin, kStretchBytes));
    }
  }
  if (text.empty()) in.refuse("it is empty");
  return {path, std::move(text)};
}

}  // namespace hearth
