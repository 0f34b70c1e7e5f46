// The neurons that a predictor proposes and misses at every threshold, counted once over recorded tokens.
//
// Plain counts, one thread. Training reads them to see whether a layer is good enough, and the choice of
// thresholds reads them too.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

namespace hearth {

/// Shares at one threshold.
struct PredictorShares {
  double active = 0;           // share of all neurons
  double proposed = 0;         // share of all neurons
  double recall = 1;           // share of the active neurons that is proposed
  double false_positives = 0;  // share of the inactive neurons that is proposed
  double missed = 0;           // share of the contributions' squares that belongs to neurons not proposed
};

class LogitCurve {
 public:
  /// Thresholds are the multiples of 1/16 from -24 to 24; results beyond that range hardly differ.
  static constexpr int kSteps = 769;
  static float threshold(int step) { return static_cast<float>(step - kSteps / 2) / 16; }

  LogitCurve();

  /// Adds one neuron of one token. contribution 0: inactive.
  void add(float logit, float contribution);
  void add(const LogitCurve& other);

  int64_t n_neurons() const;  // neurons that were added
  PredictorShares at(int step) const;
  /// The mean of the contributions' squares over all added neurons.
  double mean_square() const;
  /// The highest step for which `fits` holds, or 0. REQUIRES: if `fits` holds for a step, it holds for all
  /// lower ones.
  int highest(const std::function<bool(const PredictorShares&)>& fits) const;

 private:
  struct Bin {
    int64_t n_active = 0, n_inactive = 0;
    double squares = 0;
  };
  /// For each bin, sums over it and all bins above.
  void sum_up() const;

  std::vector<Bin> bins_;              // [kSteps + 1] bin b has the logits from threshold(b - 1) on
  mutable std::vector<Bin> at_least_;  // [kSteps + 1] sums from the top; empty: not computed yet
};

}  // namespace hearth
