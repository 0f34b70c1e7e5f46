// Reads the texts that predictors are trained on: decides how much of each file is read, and divides it into
// a part for training, a part for tuning and a held-out part.
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

/// Consecutive windows [n, n_context]. Each begins with the begin token if the model wants one.
struct TrainingText {
  std::vector<int32_t> train;     // for recording
  std::vector<int32_t> tune;      // for choosing thresholds
  std::vector<int32_t> held_out;  // for measuring only
  int32_t bos = -1;
};

struct TextCut {
  int n_context = 512;
  int64_t n_train = 100'000;  // most tokens for training
  int64_t n_tune = 32'768;    // most tokens for tuning, and most tokens held out
};

/// The last fifth of each text is not trained on: half of it is for tuning, half is held out. If `held_out`
/// has texts, they are held out, and the last tenth of each text is for tuning. Windows that are not needed
/// are left out evenly. Throws std::runtime_error (one sentence) if there is too little text.
TrainingText cut_texts(const Tokenizer& tokenizer, std::span<const NamedText> texts,
                       std::span<const NamedText> held_out, const TextCut& cut);

/// A stretch is much longer than a window of tokens, so that little is lost where it is cut.
inline constexpr size_t kStretchBytes = size_t{1} << 16;

/// Reads the whole file if it has no more than max_bytes or one stretch. Otherwise reads as many stretches as
/// max_bytes has room for, in order and spread evenly; each is cut at the end of a line or a word and ends
/// with a line break. Anything but a plain file, a pipe for example, is read from its beginning, up to
/// max_bytes. Throws std::runtime_error (one sentence that names `option`) if the file cannot be read, is
/// empty or is not text.
NamedText sample_text(const std::string& path, size_t max_bytes, std::string_view option);

}  // namespace hearth
