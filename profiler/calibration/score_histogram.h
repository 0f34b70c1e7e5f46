// How large the neurons' contributions of one layer are, and the thresholds that follow from that for all
// layers together.
//
// A neuron's score for a token is the norm of what it adds to the layer's output: |value| times the norm of
// its down column. Filled by calibrate.cpp on a text; pure arithmetic. One thread.
#pragma once

#include <bit>
#include <cstdint>
#include <span>
#include <vector>

namespace hearth {

/// Counts of scores in bins that are 1/32 of an octave to 1/16 wide: a float's exponent and the first five
/// bits of its mantissa number them.
class ScoreHistogram {
 public:
  ScoreHistogram() : bins_(kBins) {}

  /// REQUIRES: score >= 0, or not a number, which counts as largest.
  void add(float score) {
    Bin& bin = bins_[std::bit_cast<uint32_t>(score) >> kDroppedBits];
    bin.count += 1;
    bin.energy += static_cast<double>(score) * score;
  }

  /// What a threshold would skip.
  struct Skipped {
    double share = 0;   // of all scores; 0 of none
    double energy = 0;  // sum of their squares: of the output's error, were contributions independent
  };
  Skipped below(double threshold) const;

  /// The threshold that skips `share` of the scores. REQUIRES: 0 <= share < 1.
  double quantile(double share) const;

 private:
  static constexpr int kDroppedBits = 18;
  static constexpr size_t kBins = size_t{1} << (31 - kDroppedBits);
  static double edge(size_t bin) { return std::bit_cast<float>(static_cast<uint32_t>(bin << kDroppedBits)); }

  struct Bin {
    int64_t count = 0;
    double energy = 0;
  };
  std::vector<Bin> bins_;
};

/// Thresholds [n_layers] that skip `share` of all neurons at the least cost, where an error energy E in layer
/// l costs weights[l] * E: at the least cost the last neuron skipped costs the same in every layer, so
/// weights[l] * threshold[l]^2 is the same for all. REQUIRES: as many weights as layers, all > 0; 0 <= share
/// < 1. share 0: thresholds of 0.
std::vector<float> thresholds_for(std::span<const ScoreHistogram> layers, std::span<const double> weights,
                                  double share);

}  // namespace hearth
