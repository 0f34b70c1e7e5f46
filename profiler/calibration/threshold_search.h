// Finds the thresholds that skip a share of every layer's neurons, and the largest share that may be skipped.
//
// A neuron's score for a token is the norm of what it adds to the layer's output: |value| times the norm of
// its down column. calibrate.cpp gathers the scores on a text and judges shares by running the model. Pure
// arithmetic; one thread.
#pragma once

#include <bit>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

namespace hearth {

/// A histogram of scores. A float's exponent and the first five bits of its mantissa number the bin, so a bin
/// is 1/32 to 1/16 of an octave wide.
class ScoreHistogram {
 public:
  ScoreHistogram() : bins_(kBins) {}

  /// REQUIRES: score >= 0 or NaN, which counts as the largest score.
  void add(float score) { bins_[std::bit_cast<uint32_t>(score) >> kDroppedBits] += 1; }

  /// The share of the scores that a threshold would skip; 0 if there are none.
  double share_below(double threshold) const;

  /// The threshold that skips `share` of the scores. REQUIRES: 0 <= share < 1.
  double quantile(double share) const;

 private:
  static constexpr int kDroppedBits = 18;
  static constexpr size_t kBins = size_t{1} << (31 - kDroppedBits);
  static double edge(size_t bin) { return std::bit_cast<float>(static_cast<uint32_t>(bin << kDroppedBits)); }

  std::vector<int64_t> bins_;  // [kBins] scores
};

/// Thresholds [n_layers] that skip `share` of the neurons in every layer; 0 for a share of 0. REQUIRES: 0 <=
/// share < 1.
std::vector<float> thresholds_for(std::span<const ScoreHistogram> layers, double share);

/// Returns whether skipping `share` of the neurons keeps perplexity within the budget. in_full: judge the
/// whole text; otherwise the judge may stop once the result is nearly certain.
using ShareJudge = std::function<bool(double share, bool in_full)>;

inline constexpr int kShareSteps = 8;  // bisections of [0, 1), down to 0.4 % of all neurons

/// The largest share found within the budget, judged in full; 0, which is not judged, if there is none. The
/// search assumes that the cost rises with the share; if it does not, the result may be smaller than the
/// largest share.
double largest_share(const ShareJudge& within_budget);

}  // namespace hearth
