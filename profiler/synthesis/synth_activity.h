// Planted FFN activity: makes the weights of a random model such that each neuron fires with a known
// frequency.
//
// Why: speed depends on shapes and on which neurons fire, not on the meaning of weights. To make a synthetic
// model's activity known, every input of an FFN has, besides random parts,
//   - a constant part along a direction u, and
//   - a part of constant length in a space of kRank dimensions, with a direction w that is uniform over the
//     sphere.
// Gate row i is a unit direction a_i of that space less t_i u, so the gate's sign is that of <a_i, w> - x_i,
// where the cosine x_i is chosen so that neuron i fires with probability p_i. All directions are orthogonal
// to the vector of ones, so LayerNorm's centering changes nothing. For this to hold in every layer, attention
// and FFN must add little to the residual compared with the embedding; synth_model takes care of that.
//
// Const after construction, any thread.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "profiler/synthesis/normal_stream.h"

namespace hearth {

/// The probabilities with which n neurons fire, the largest first: a power law with the mean `mean`,
/// flattened at its head and at most 0.98. REQUIRES: n >= 1, 0 < mean <= 0.95, exponent >= 0.
std::vector<double> firing_probabilities(int n, double mean, double exponent = 2.0);

/// The shares of an FFN input's parts that an embedding's row has. If an input is a sum of several rows,
/// their shares of the constant part add up to 1, and the squares of their shares of varying parts add up to
/// 1.
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
  /// The cosine x for which P(<a, w> > x) = p, with a uniform direction w.
  static double cosine_of(double p);

  /// Makes an embedding's row: an FFN input [d_model] with the two parts above and a random rest. With shares
  /// of 1, its elements have a mean square of 1.
  void input_row(NormalStream& random, const InputShares& shares, std::span<float> out) const;
  /// The mean square of an input row's elements.
  static double mean_square(const InputShares& shares);

  /// The gate row [d_model] of a neuron. Its product has a standard deviation of 1 over all inputs.
  void gate_row(const Direction& direction, double cosine, std::span<float> out) const;

  /// A row [d_model] that gives the product `value` with every whole input.
  void constant_row(double value, std::span<float> out) const;

  /// A row [d_model] that gives, as its product with an input, the input's coordinate k in the space.
  void coordinate_row(int k, std::span<float> out) const;
  /// The coordinate to which element e of an input belongs, and its weight: coordinates c become an input
  /// with the elements x_e = weight * c[coordinate].
  struct Element {
    int coordinate;
    float weight;
  };
  Element element(int64_t e) const {
    return {class_[static_cast<size_t>(e)], entry_[static_cast<size_t>(e)]};
  }

  /// Removes the part of x along u, so that an output row gives no token a constant advantage.
  void remove_constant_part(std::span<float> x) const;

 private:
  friend class PlantedPredictor;
  /// Adds the vector with these coordinates to `out`.
  void add_combination(const Direction& coordinates, std::span<float> out) const;
  /// Removes all parts of x along the space, along ones and, if remove_u, along u.
  void keep_the_rest(std::span<float> x, bool remove_u) const;
  /// The weight of u in a gate row of unit direction.
  double u_weight(double cosine) const;

  // Basis vector k is nonzero where class_[e] == k, so adding a combination costs d_model steps, not kRank
  // times as many. Classes are scattered, and each has as many plus as minus signs.
  std::vector<uint8_t> class_;
  std::vector<float> entry_;  // +- 1 / sqrt(d_model / kRank)
  std::vector<float> u_;
};

/// The predictor of planted activity: fc2 relu(fc1 x) has the gate's sign, except for quantization errors. To
/// reduce the errors, it averages over as many rotated copies of the space as its rank allows.
class PlantedPredictor {
 public:
  /// Smallest rank: one copy with both signs, and u.
  static constexpr int kMinRank = 3 * ActivitySpace::kRank;

  /// `space` must outlive it. REQUIRES: rank >= kMinRank.
  PlantedPredictor(const ActivitySpace& space, int rank, uint64_t seed);

  /// Row [d_model] of fc1, row_index in [0, rank).
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
