#include "engine/sampling/logit_adjustments.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <utility>

namespace hearth {
namespace {

constexpr float kNever = -std::numeric_limits<float>::infinity();
// OpenAI documents that a bias of -100 "should result in a ban". Merely adding -100 to a logit would only
// make the token very unlikely.
constexpr float kBan = -100.0f;
// A penalty this large amounts to a ban; the limit keeps the arithmetic finite.
constexpr double kMostDryPenalty = 1e6;

bool has_penalties(const SamplingParams& params) {
  return params.repetition_penalty != 1.0f || params.presence_penalty != 0.0f ||
         params.frequency_penalty != 0.0f;
}

bool is_breaker(const DryParams& dry, int32_t token) { return dry.breakers && dry.breakers->allows(token); }

/// Returns the Z-function of the text (Gusfield 1997): for each i, the length of the longest common prefix of
/// the text and its part from text[i] on.
std::vector<size_t> common_prefixes(std::span<const int32_t> text) {
  std::vector<size_t> lengths(text.size(), 0);
  size_t begin = 0, end = 0;  // the match that reaches farthest
  for (size_t i = 1; i < text.size(); ++i) {
    size_t n = i < end ? std::min(end - i, lengths[i - begin]) : 0;
    while (i + n < text.size() && text[n] == text[i + n]) ++n;
    lengths[i] = n;
    if (i + n > end) begin = i, end = i + n;
  }
  return lengths;
}

}  // namespace

bool has_adjustments(const SamplingParams& params) {
  return !params.logit_bias.empty() || has_penalties(params) || params.dry.multiplier > 0;
}

void add_bias(const SamplingParams& params, std::span<float> logits) {
  for (const auto& [token, bias] : params.logit_bias) {
    float& logit = logits[static_cast<size_t>(token)];
    logit = bias <= kBan ? kNever : logit + bias;
  }
}

void forbid_others(const TokenMask& allowed, std::span<float> logits) {
  for (size_t first = 0; first < logits.size(); first += 64) {
    const uint64_t word = allowed.words[first / 64];
    if (word == ~uint64_t{0}) continue;
    const std::span<float> some = logits.subspan(first, std::min<size_t>(64, logits.size() - first));
    for (size_t i = 0; i < some.size(); ++i)
      if ((word >> i & 1) == 0) some[i] = kNever;
  }
}

void subtract_penalties(const SamplingParams& params, std::span<const int32_t> tokens, size_t n_prompt,
                        std::vector<int32_t>& counts, std::span<float> logits) {
  if (!has_penalties(params)) return;
  const size_t n_seen = params.repetition_last_n < 0
                            ? tokens.size()
                            : std::min(tokens.size(), static_cast<size_t>(params.repetition_last_n));
  // Repetition: each token is penalized once, however often it occurs. A count above 0 marks a token that is
  // already penalized.
  for (const int32_t token : tokens.last(n_seen)) {
    if (counts[static_cast<size_t>(token)]++ > 0) continue;
    float& logit = logits[static_cast<size_t>(token)];
    logit = logit > 0 ? logit / params.repetition_penalty : logit * params.repetition_penalty;
  }
  for (const int32_t token : tokens.last(n_seen)) counts[static_cast<size_t>(token)] = 0;
  // The presence and frequency penalties depend on how often each token was generated.
  const std::span<const int32_t> generated = tokens.subspan(n_prompt);
  for (const int32_t token : generated) ++counts[static_cast<size_t>(token)];
  for (const int32_t token : generated) {
    const int n = std::exchange(counts[static_cast<size_t>(token)], 0);
    if (n == 0) continue;  // done already
    float& logit = logits[static_cast<size_t>(token)];
    logit -= params.presence_penalty;
    logit -= params.frequency_penalty * static_cast<float>(n);
  }
}

void subtract_dry(const DryParams& dry, std::span<const int32_t> tokens, std::span<float> logits) {
  if (dry.multiplier <= 0) return;
  // 1. Reverse the text to search, so that repetitions of its end become repetitions of its beginning.
  size_t n = tokens.size();
  if (dry.last_n >= 0) n = std::min(n, static_cast<size_t>(dry.last_n));
  const std::vector<int32_t> text(tokens.rbegin(), tokens.rbegin() + static_cast<std::ptrdiff_t>(n));
  const auto breaker = std::ranges::find_if(text, [&](int32_t token) { return is_breaker(dry, token); });
  const auto most = static_cast<size_t>(breaker - text.begin());  // repetitions stop at a breaker

  // 2. For each token, find the longest repetition that it would extend.
  std::map<int32_t, size_t> longest;
  const std::vector<size_t> lengths = common_prefixes(text);
  for (size_t i = 1; i < text.size(); ++i) {
    const size_t length = std::min(lengths[i], most);
    if (length == 0 || length < static_cast<size_t>(dry.allowed_length)) continue;
    const int32_t next = text[i - 1];
    if (!is_breaker(dry, next)) longest[next] = std::max(longest[next], length);
  }

  // 3. Subtract the penalties.
  for (const auto& [token, length] : longest) {
    const double beyond = static_cast<double>(length) - dry.allowed_length;
    const double penalty =
        static_cast<double>(dry.multiplier) * std::pow(static_cast<double>(dry.base), beyond);
    logits[static_cast<size_t>(token)] -= static_cast<float>(std::min(penalty, kMostDryPenalty));
  }
}

}  // namespace hearth
