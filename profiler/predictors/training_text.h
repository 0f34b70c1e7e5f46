// The texts that predictors are trained on: how much of each file is read, and how it is divided into what is
// trained on, tuned on and held out.
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

/// Windows [n, n_context], one behind the other, each beginning with the begin token if the model wants one.
struct TrainingText {
  std::vector<int32_t> train;     // for recording
  std::vector<int32_t> tune;      // thresholds are chosen on it
  std::vector<int32_t> held_out;  // only measured on
  int32_t bos = -1;
};

struct TextCut {
  int n_context = 512;
  int64_t n_train = 100'000;  // tokens at most
  int64_t n_tune = 32'768;    // of each of the two parts kept apart, at most
};

/// The last fifth of each text is kept apart, half for tuning, half held out; with texts of its own for that,
/// `held_out`, the last tenth for tuning. Windows that are not needed are left out evenly. Throws
/// std::runtime_error (one sentence) if there is too little text.
TrainingText cut_texts(const Tokenizer& tokenizer, std::span<const NamedText> texts,
                       std::span<const NamedText> held_out, const TextCut& cut);

/// A stretch is long beside a window of tokens, so that little is lost where it is cut.
inline constexpr size_t kStretchBytes = size_t{1} << 16;

/// The whole file if it has no more than max_bytes or a stretch; else as many stretches as fit max_bytes, in
/// order and spread evenly, each cut where a line or a word ends and ended by a line break. What is no plain
/// file, a pipe say, is read from its beginning, to max_bytes. Throws std::runtime_error (one sentence): it
/// cannot be read, is empty or no text; `option` names it there.
NamedText sample_text(const std::string& path, size_t max_bytes, std::string_view option);

}  // namespace hearth
