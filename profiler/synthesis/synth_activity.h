// Planted FFN activity: which neurons of a random model fire how often, and the weights that make it so.
//
// Why: speed depends on shapes and on which neurons fire, not on what the weights mean. So that the activity
// of a synthetic model is known, every input of an FFN has, beside random parts,
//   - a constant part along a direction u, and
//   - a part of constant length in a space of kRank dimensions, whose direction w is uniform over the sphere.
// Gate row i is a unit direction a_i of that space less t_i u, so its sign is that of <a_i, w> - x_i, where
// the cosine x_i is chosen so that neuron i fires with probability p_i. All directions are orthogonal to the
// vector of ones, so LayerNorm's centring changes nothing. What attention and FFN add to the residual must be
// small beside the embedding for this to hold in every layer; that is their maker's business (synth_model).
//
// Const after construction, any thread.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "profiler/synthesis/normal_stream.h"

namespace hearth {

/// How often each of n neurons fires, most often first: a power law, flattened at its head and at most 0.98,
/// whose mean is `mean`. REQUIRES: n >= 1, 0 < mean <= 0.95, exponent >= 0.
std::vector<double> firing_probabilities(int n, double mean, double exponent = 2.0);

/// How much of an FFN input's parts an embedding's row has. An input that is a sum of rows has them shared out: shares of
/// the constant part add up to 1, those of the varying parts do as squares.
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

  /// An FFN input [d_model] with the two parts above and a random rest, its elements of mean square 1 (with shares of
  /// 1): an embedding's row.
  void input_row(NormalStream& random, const InputShares& shares, std::span<float> out) const;
  /// The mean square of an input row's elements.
  static double mean_square(const InputShares& shares);

  /// The gate row [d_model] of a neuron; over all inputs its product has a standard deviation of 1.
  void gate_row(const Direction& direction, double cosine, std::span<float> out) const;

  /// A row [d_model] whose product with every whole input is `value`.
  void constant_row(double value, std::span<float> out) const;

  /// Coordinate k of the space, as a row [d_model] whose product with an input is the coordinate.
  void coordinate_row(int k, std::span<float> out) const;
  /// Which coordinate element e of an input belongs to, and how much of it the element has: coordinates c become an
  /// input with the elements x_e = weight * c[coordinate].
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

  // Basis vector k is nonzero where class_[e] == k: adding a combination costs d_model steps, not kRank times
  // as many. Classes are scattered, and each has as many plus as minus signs.
  std::vector<uint8_t> class_;
  std::vector<float> entry_;  // +- 1 / sqrt(d_model / kRank)
  std::vector<float> u_;
};

/// The predictor of planted activity: fc2 relu(fc1 x) has the gate's sign, up to quantisation, whose errors
/// it averages over as many rotated copies of the space as its rank has room for.
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
