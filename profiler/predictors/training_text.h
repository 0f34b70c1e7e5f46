// Texts cut up for the training of predictors: what is trained on, and what is kept apart to judge by.
//
// Pure but for the tokenizer; called by train_command.cpp.
#pragma once

#include <cstdint>
#include <span>
#include <string>
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

}  // namespace hearth
