// Planted FFN activity: makes the weights of a random model such that each neuron fires with a known
// frequency.
//
// Why: speed depends on shapes and on which neurons fire, not on the meaning of weights. To make a synthetic
// model's activity known, every input of an FFN has two planted parts in addition to a random part:
//   - a constant part along a direction u, and
//   - a part of constant length in a space of kRank dimensions. Its direction w is uniform over the sphere.
// Gate row i is a_i - t_i u, where a_i is a unit direction in the space of kRank dimensions. The factor t_i
// is chosen such that the gate has the sign of <a_i, w> - x_i. The cosine x_i is chosen such that neuron i
// fires with probability p_i. All directions are orthogonal to the vector of ones, so LayerNorm's centering
// does not change them. So that the inputs of every layer have the two planted parts, synth_model makes
// attention and FFNs add little to the residual compared with the embedding.
//
// Const after construction, any thread.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "profiler/synthesis/normal_stream.h"

namespace hearth {

/// Returns the probabilities with which n neurons fire, the largest first. Their mean is `mean`. They follow
/// a power law that is flattened for the most active neurons, and are at most 0.98. REQUIRES: n >= 1, 0 <
/// mean <= 0.95, exponent >= 0.
std::vector<double> firing_probabilities(int n, double mean, double exponent = 2.0);

/// The lengths of an embedding row's parts, each relative to the same part of a complete FFN input. An input
/// may be the sum of several rows. Then their `constant` shares add up to 1, and so do the squares of their
/// `space` shares and of their `rest` shares.
struct InputShares {
  double constant = 1, space = 1, rest = 1;
};

class ActivitySpace {
 public:
  static constexpr int kRank = 32;
  using Direction = std::array<float, kRank>;

  /// REQUIRES: d_model is a multiple of 64.
  ActivitySpace(int d_model, uint64_t seed);

  /// A random direction, uniform over the sphere.
  static Direction random_direction(NormalStream& random);
  /// Returns the cosine x for which P(<a, w> > x) = p, if the direction w is uniform.
  static double cosine_of(double p);

  /// Makes a row of an embedding: an FFN input [d_model] that is the sum of the constant part, the space part
  /// and a random rest. If all shares are 1, the row's elements have a mean square of 1.
  void input_row(NormalStream& random, const InputShares& shares, std::span<float> out) const;
  /// The mean square of an input row's elements.
  static double mean_square(const InputShares& shares);

  /// Makes a neuron's gate row [d_model]. Over all inputs, its product with the input has a standard
  /// deviation of 1.
  void gate_row(const Direction& direction, double cosine, std::span<float> out) const;

  /// Makes a row [d_model] whose product with every complete input is `value`.
  void constant_row(double value, std::span<float> out) const;

  /// Makes a row [d_model] whose product with an input is the input's coordinate k in the space.
  void coordinate_row(int k, std::span<float> out) const;
  /// Returns the coordinate on which element e of an input depends, and its weight: in the vector with the
  /// coordinates c, element e is weight * c[coordinate].
  struct Element {
    int coordinate;
    float weight;
  };
  Element element(int64_t e) const {
    return {class_[static_cast<size_t>(e)], entry_[static_cast<size_t>(e)]};
  }

  /// Removes the part of x along u. Every input has the same part along u, so without this removal an output
  /// row would give its token the same advantage or disadvantage for every input.
  void remove_constant_part(std::span<float> x) const;

 private:
  friend class PlantedPredictor;
  /// Adds the vector with these coordinates to `out`.
  void add_combination(const Direction& coordinates, std::span<float> out) const;
  /// Removes from x its part in the space and its part along the vector of ones. If remove_u is set, also
  /// removes its part along u.
  void keep_the_rest(std::span<float> x, bool remove_u) const;
  /// Returns the weight of u in a gate row whose direction has length 1.
  double u_weight(double cosine) const;

  // Basis vector k is nonzero where class_[e] == k, so adding a combination of all kRank vectors takes only
  // d_model steps. Classes are scattered over the elements, and each has as many plus as minus signs.
  std::vector<uint8_t> class_;
  std::vector<float> entry_;  // +- 1 / sqrt(d_model / kRank)
  std::vector<float> u_;
};

/// The predictor of planted activity. fc2 relu(fc1 x) has the same sign as the gate, except for quantization
/// errors. To reduce these errors, it averages over as many rotated copies of the space as its rank allows.
class PlantedPredictor {
 public:
  /// The smallest rank, which has room for one copy of the space with both signs, and for u.
  static constexpr int kMinRank = 3 * ActivitySpace::kRank;

  /// `space` must outlive this object. REQUIRES: rank >= kMinRank.
  PlantedPredictor(const ActivitySpace& space, int rank, uint64_t seed);

  /// Makes row number row_index [d_model] of fc1, with row_index in [0, rank).
  void fc1_row(int row_index, std::span<float> out) const;
  /// A neuron's row [rank] of fc2.
  void fc2_row(const ActivitySpace::Direction& direction, double cosine, std::span<float> out) const;

 private:
  using Rotation = std::array<ActivitySpace::Direction, ActivitySpace::kRank>;  // orthonormal rows

  const ActivitySpace& space_;
  int rank_;
  uint64_t seed_;
  std::vector<Rotation> rotations_;
};

}  // namespace hearth
