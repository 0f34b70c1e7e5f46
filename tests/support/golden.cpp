// Reads golden references and measures a model against them.
#include "tests/support/golden.h"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "engine/step/fixed_blocks.h"

namespace hearth::testing {
namespace {

/// log-sum-exp in double over one row of logits.
double log_sum_exp(const float* logits, int n) {
  const double peak = *std::max_element(logits, logits + n);
  double sum = 0;
  for (int i = 0; i < n; ++i) sum += std::exp(logits[i] - peak);
  return peak + std::log(sum);
}

double kl_top_and_rest(const std::vector<std::pair<int32_t, float>>& reference, const float* logits,
                       double log_z) {
  double kl = 0, p_rest = 1, q_rest = 1;
  for (const auto& [token, logprob] : reference) {
    const double p = std::exp(static_cast<double>(logprob));
    const double log_q = logits[token] - log_z;
    kl += p * (logprob - log_q);
    p_rest -= p;
    q_rest -= std::exp(log_q);
  }
  if (p_rest > 1e-9 && q_rest > 1e-12) kl += p_rest * (std::log(p_rest) - std::log(q_rest));
  return kl;
}

}  // namespace

std::vector<GoldenText> read_golden(const std::filesystem::path& json) {
  std::ifstream in(json);
  if (!in) throw std::runtime_error(json.string() + ": cannot be read");
  std::vector<GoldenText> texts;
  for (const auto& item : nlohmann::json::parse(in)) {
    GoldenText text;
    item.at("name").get_to(text.name);
    item.at("tokens").get_to(text.tokens);
    item.at("logprob_next").get_to(text.logprob_next);
    item.at("top").get_to(text.top);
    texts.push_back(std::move(text));
  }
  return texts;
}

std::vector<TokenizedText> read_texts(const std::filesystem::path& json) {
  std::ifstream in(json);
  if (!in) throw std::runtime_error(json.string() + ": cannot be read");
  std::vector<TokenizedText> texts;
  for (const auto& item : nlohmann::json::parse(in)) {
    texts.push_back({item.at("name"), item.at("text"), item.at("tokens")});
  }
  return texts;
}

std::vector<float> logits_of(ForwardModel& model, const std::vector<int32_t>& tokens, int chunk) {
  const StepLimits limits = model.limits();
  chunk = std::min({chunk, FixedBlocks(limits, 1).max_step(), limits.max_logit_rows});
  const int n_tokens = static_cast<int>(tokens.size());
  const int n_blocks = (n_tokens + limits.block_tokens - 1) / limits.block_tokens;
  if (n_blocks > limits.n_blocks) throw std::runtime_error("text is longer than the model's KV cache");
  // KV blocks are in descending order, so that a misread block table changes the result.
  std::vector<int32_t> table, window_table;
  for (int i = 0; i < n_blocks; ++i) table.push_back(limits.n_blocks - 1 - i);
  // Window blocks are overwritten as soon as no token sees them.
  for (int i = 0; limits.window && i < n_blocks; ++i)
    window_table.push_back(limits.window.n_blocks - 1 - i % limits.window.n_blocks);

  std::vector<float> logits;
  Batch batch;
  for (int begin = 0; begin < n_tokens; begin += chunk) {
    batch.clear();
    for (int i = begin; i < std::min(begin + chunk, n_tokens); ++i) {
      batch.tokens.push_back(tokens[static_cast<size_t>(i)]);
      batch.positions.push_back(i);
      batch.slots.push_back(0);
      batch.logit_rows.push_back(i - begin);
    }
    batch.block_tables = table;
    batch.window_tables = window_table;
    batch.max_blocks = n_blocks;
    const std::span<const float> rows = model.forward(batch).logits;
    logits.insert(logits.end(), rows.begin(), rows.end());
  }
  return logits;
}

double mean_kl(const std::vector<float>& reference, const std::vector<float>& logits, int n_vocab) {
  if (reference.size() != logits.size()) throw std::runtime_error("logits of different texts are compared");
  const size_t n_rows = reference.size() / static_cast<size_t>(n_vocab);
  double sum = 0;
  for (size_t row = 0; row < n_rows; ++row) {
    const float* p = reference.data() + row * static_cast<size_t>(n_vocab);
    const float* q = logits.data() + row * static_cast<size_t>(n_vocab);
    const double p_log_z = log_sum_exp(p, n_vocab), q_log_z = log_sum_exp(q, n_vocab);
    for (int i = 0; i < n_vocab; ++i) {
      const double log_p = p[i] - p_log_z;
      sum += std::exp(log_p) * (log_p - (q[i] - q_log_z));
    }
  }
  return sum / static_cast<double>(n_rows);
}

GoldenScore score_golden(ForwardModel& model, const std::vector<GoldenText>& texts, int chunk) {
  const int n_vocab = model.limits().n_vocab;
  GoldenScore score;
  int n_next = 0;
  double nll = 0, reference_nll = 0;
  for (const GoldenText& text : texts) {
    const std::vector<float> logits = logits_of(model, text.tokens, chunk);
    for (size_t t = 0; t < text.tokens.size(); ++t) {
      const float* row = logits.data() + t * static_cast<size_t>(n_vocab);
      const double log_z = log_sum_exp(row, n_vocab);
      score.mean_kl += kl_top_and_rest(text.top[t], row, log_z);
      score.top1_agreement += std::max_element(row, row + n_vocab) - row == text.top[t][0].first ? 1 : 0;
      ++score.n_positions;
      if (t + 1 == text.tokens.size()) continue;
      const double logprob = row[text.tokens[t + 1]] - log_z;
      score.mean_abs_logprob += std::abs(logprob - text.logprob_next[t]);
      nll -= logprob;
      reference_nll -= text.logprob_next[t];
      ++n_next;
    }
  }
  score.mean_kl /= score.n_positions;
  score.top1_agreement /= score.n_positions;
  score.mean_abs_logprob /= n_next;
  score.perplexity = std::exp(nll / n_next);
  score.reference_perplexity = std::exp(reference_nll / n_next);
  return score;
}

}  // namespace hearth::testing
