// Compares a forward pass with a model's golden reference: token ids and float32 log-probabilities made by
// tests/data/golden/reference.py.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "engine/step/batch.h"

namespace hearth::testing {

struct GoldenText {
  std::string name;
  std::vector<int32_t> tokens;
  std::vector<float> logprob_next;                          // [n_tokens - 1]
  std::vector<std::vector<std::pair<int32_t, float>>> top;  // [n_tokens][20], most likely first
};

std::vector<GoldenText> read_golden(const std::filesystem::path& json);

struct TokenizedText {
  std::string name, text;
  std::vector<int32_t> tokens;
};

/// Reads texts with their token ids, in the format of tests/data/golden/smollm2-texts.json.
std::vector<TokenizedText> read_texts(const std::filesystem::path& json);

/// Returns the logits of every position [n_tokens, n_vocab]. Runs the model in chunks of at most `chunk`
/// tokens, in slot 0.
std::vector<float> logits_of(ForwardModel& model, const std::vector<int32_t>& tokens, int chunk);

/// Returns the mean over the rows of KL(reference || logits) in nats, over the whole vocabulary. Both
/// arguments are logits [n_rows, n_vocab].
double mean_kl(const std::vector<float>& reference, const std::vector<float>& logits, int n_vocab);

struct GoldenScore {
  int n_positions = 0;
  double mean_kl = 0;  // KL(reference || ours) in nats, over the reference's top 20 and the rest as one class
  double top1_agreement = 0;    // share of positions whose most likely token is the same
  double mean_abs_logprob = 0;  // mean |difference| of the next token's log-probability
  double perplexity = 0, reference_perplexity = 0;
};

/// Runs all texts; all positions have the same weight.
GoldenScore score_golden(ForwardModel& model, const std::vector<GoldenText>& texts, int chunk);

}  // namespace hearth::testing
