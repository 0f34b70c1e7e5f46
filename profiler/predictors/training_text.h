// Reads the texts that predictors are trained on. Decides how much of each file is read, and divides its text
// into a part for training, a part for tuning and a held-out part.
//
// A file of any size takes a bounded amount of memory and time. Called by train_command.cpp; any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/tokenizer/tokenizer.h"

namespace hearth {

struct NamedText {
  std::string name;  // for sentences: a path
  std::string text;
};

/// Windows of tokens [n, n_context], one after the other. Each begins with the begin token if the model
/// expects one.
struct TrainingText {
  std::vector<int32_t> train;     // for recording
  std::vector<int32_t> tune;      // for choosing thresholds
  std::vector<int32_t> held_out;  // for measuring only
  int32_t bos = -1;
};

struct TextCut {
  int n_context = 512;
  int64_t n_train = 100'000;  // maximum number of tokens for training
  int64_t n_tune = 32'768;    // maximum number of tokens for tuning, and also of held-out tokens
};

/// Divides the texts. The last fifth of each text is not trained on: half of it is for tuning, and half is
/// held out. If `held_out` has texts, those are held out instead, and the last tenth of each text is for
/// tuning. If a part has too many windows, windows are dropped evenly. Throws std::runtime_error (one
/// sentence) if there is too little text.
TrainingText cut_texts(const Tokenizer& tokenizer, std::span<const NamedText> texts,
                       std::span<const NamedText> held_out, const TextCut& cut);

/// The size of a stretch of text that is read from a large file. A stretch is much longer than a window of
/// tokens, so that only a small share of it is lost at its two ends.
inline constexpr size_t kStretchBytes = size_t{1} << 16;

/// Reads a file of text. If max_bytes is less than kStretchBytes, uses kStretchBytes instead. Reads the whole
/// file if it has at most max_bytes. Otherwise reads as many stretches as fit in max_bytes, in order and
/// spread evenly over the file. Each stretch is cut at the end of a line or a word, and ends with a line
/// break. If the input is not a regular file, for example a pipe, reads up to max_bytes from its beginning.
/// Throws std::runtime_error (one sentence that names `option`) if the file cannot be read, is empty or is
/// not text.
NamedText sample_text(const std::string& path, size_t max_bytes, std::string_view option);

}  // namespace hearth
