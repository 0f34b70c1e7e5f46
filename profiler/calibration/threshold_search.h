// Finds the thresholds that skip a share of every layer's neurons, and the largest share that may be skipped.
//
// A neuron's score for a token is the norm of what it adds to the layer's output: the absolute value of its
// activation times the norm of its down column. calibrate.cpp gathers the scores on a text, and runs the
// model to judge whether a share may be skipped. Pure arithmetic; one thread.
#pragma once

#include <bit>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

namespace hearth {

/// A histogram of scores. A score's exponent and its first five mantissa bits are the index of its bin. The
/// bins therefore divide each range from 2^e to 2^(e+1) into 32 equal parts.
class ScoreHistogram {
 public:
  ScoreHistogram() : bins_(kBins) {}

  /// Counts one score. REQUIRES: score >= 0 or NaN, which counts as the largest score.
  void add(float score) { bins_[std::bit_cast<uint32_t>(score) >> kDroppedBits] += 1; }

  /// The share of the scores that lie below `threshold`; 0 if no scores were added.
  double share_below(double threshold) const;

  /// Returns a threshold such that the given share of the scores is below it. REQUIRES: 0 <= share < 1.
  double quantile(double share) const;

 private:
  static constexpr int kDroppedBits = 18;
  static constexpr size_t kBins = size_t{1} << (31 - kDroppedBits);
  static double edge(size_t bin) { return std::bit_cast<float>(static_cast<uint32_t>(bin << kDroppedBits)); }

  std::vector<int64_t> bins_;  // [kBins] scores
};

/// Thresholds [n_layers] that skip `share` of the neurons in every layer; all 0 for a share of 0. REQUIRES: 0
/// <= share < 1.
std::vector<float> thresholds_for(std::span<const ScoreHistogram> layers, double share);

/// Returns whether skipping `share` of the neurons keeps perplexity within the budget. in_full: whether to
/// judge the whole text; otherwise the judge may stop as soon as the result is nearly certain.
using ShareJudge = std::function<bool(double share, bool in_full)>;

inline constexpr int kShareSteps = 8;  // bisections of [0, 1), down to a step of 1/256 of all neurons

/// Returns the largest share, of those that the search tries, with which the whole text stays within the
/// budget. If all of them exceed the budget, returns 0 without judging a share of 0. The search assumes that
/// perplexity rises with the share. If this is wrong, a share larger than the returned one may also be within
/// the budget.
double largest_share(const ShareJudge& within_budget);

}  // namespace hearth
