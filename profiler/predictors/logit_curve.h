// Counts how many neurons a predictor proposes and misses at each threshold, in one pass over recorded
// tokens.
//
// Training uses the counts to decide whether a layer's predictor is good enough, and threshold_choice.cpp
// uses them to choose thresholds. One thread.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

namespace hearth {

/// Shares at one threshold.
struct PredictorShares {
  double active = 0;           // share of all neurons that are active
  double proposed = 0;         // share of all neurons that are proposed
  double recall = 1;           // share of the active neurons that are proposed
  double false_positives = 0;  // share of the inactive neurons that are proposed
  double missed = 0;           // sum of the squared contributions of neurons not proposed, as a share of all
};

class LogitCurve {
 public:
  /// The thresholds are the multiples of 1/16 from -24 (step 0) to 24 (step kSteps - 1). Thresholds beyond
  /// this range give nearly the same results as its two ends.
  static constexpr int kSteps = 769;
  static float threshold(int step) { return static_cast<float>(step - kSteps / 2) / 16; }

  LogitCurve();

  /// Adds one neuron of one token. A contribution of 0 means that the neuron is inactive.
  void add(float logit, float contribution);
  void add(const LogitCurve& other);

  int64_t n_neurons() const;  // neurons that were added
  PredictorShares at(int step) const;
  /// The mean square of the contributions of all added neurons.
  double mean_square() const;
  /// Returns the highest step for which `fits` holds, or 0 if there is none. REQUIRES: if `fits` holds for a
  /// step, it also holds for all lower steps.
  int highest(const std::function<bool(const PredictorShares&)>& fits) const;

 private:
  struct Bin {
    int64_t n_active = 0, n_inactive = 0;
    double squares = 0;
  };
  /// Computes at_least_: for each bin, the sums over this bin and all bins above it.
  void sum_up() const;

  std::vector<Bin> bins_;  // [kSteps + 1] bin b counts logits from threshold(b - 1) up to threshold(b)
  mutable std::vector<Bin> at_least_;  // [kSteps + 1] see sum_up(); empty if not computed yet
};

}  // namespace hearth
