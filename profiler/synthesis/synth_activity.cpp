// Makes the space of directions, the distribution of cosines in it, and the predictor of planted activity.
// The header describes the construction.
#include "profiler/synthesis/synth_activity.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <numeric>

namespace hearth {
namespace {

constexpr int kRank = ActivitySpace::kRank;
// The lengths of an input's three parts. The longer the constant part, the smaller the factors t_i of u in
// the gate rows a_i - t_i u. Large factors would reduce the precision of the quantized gate. Most of the
// remaining length is the space part, which decides which neurons fire.
constexpr double kConstantPart = 0.6, kSpacePart = 0.7, kRestPart = 0.387298;  // squares add up to 1

double dot(std::span<const float> a, std::span<const float> b) {
  double sum = 0.0;
  for (size_t i = 0; i < a.size(); ++i) sum += static_cast<double>(a[i]) * static_cast<double>(b[i]);
  return sum;
}

void subtract(std::span<float> x, double factor, std::span<const float> y) {
  for (size_t i = 0; i < x.size(); ++i) x[i] -= static_cast<float>(factor) * y[i];
}

void scale_to(std::span<float> x, double length) {
  const float factor = static_cast<float>(length / std::sqrt(dot(x, x)));
  for (float& value : x) value *= factor;
}

/// Returns P(<a, w> <= x) at x = -1 + 2 i / kSteps, for i from 0 to kSteps: the integral of the density,
/// which is proportional to (1 - x^2)^((kRank - 3) / 2).
constexpr int kSteps = 8192;
std::vector<double> cosine_distribution() {
  std::vector<double> cumulative(kSteps + 1);
  double sum = 0.0;
  for (int i = 0; i < kSteps; ++i) {
    cumulative[static_cast<size_t>(i)] = sum;
    const double x = -1.0 + (2.0 * i + 1.0) / kSteps;
    sum += std::pow(1.0 - x * x, (kRank - 3) / 2.0);
  }
  cumulative.back() = sum;
  for (double& value : cumulative) value /= sum;
  return cumulative;
}

}  // namespace

std::vector<double> firing_probabilities(int n, double mean, double exponent) {
  assert(n >= 1 && mean > 0.0 && mean <= 0.95 && exponent >= 0.0);
  // With this head and an exponent of 2, 80 % of the activity comes from 27 % of the neurons if the mean is
  // 0.03, and from 38 % if it is 0.3. PowerInfer (SOSP'24) measured 26 % of the neurons in OPT-30B, and 43 %
  // in a ReGLU Llama with 70B weights.
  constexpr double kHead = 0.1, kMost = 0.98;
  std::vector<double> p(static_cast<size_t>(n));
  const auto fill = [&](double factor) {
    double sum = 0.0;
    for (int i = 0; i < n; ++i) {
      const double rank = (i + 0.5) / n + kHead;
      p[static_cast<size_t>(i)] = std::min(kMost, factor * std::pow(rank, -exponent));
      sum += p[static_cast<size_t>(i)];
    }
    return sum / n;
  };
  double low = 0.0, high = 2.0 * std::pow(1.0 + kHead, exponent - 2.0);  // puts every neuron at the cap
  for (int i = 0; i < 50; ++i) {
    const double middle = (low + high) / 2;
    (fill(middle) < mean ? low : high) = middle;
  }
  fill(high);
  return p;
}

ActivitySpace::ActivitySpace(int d_model, uint64_t seed)
    : class_(static_cast<size_t>(d_model)), entry_(class_.size()), u_(class_.size()) {
  assert(d_model % (2 * kRank) == 0);
  NormalStream random(seed);
  std::vector<size_t> order(class_.size());
  std::iota(order.begin(), order.end(), size_t{0});
  for (size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[random.bits() % i]);
  const float entry = static_cast<float>(1.0 / std::sqrt(d_model / kRank));
  for (size_t i = 0; i < order.size(); ++i) {
    class_[order[i]] = static_cast<uint8_t>(i % kRank);
    entry_[order[i]] = i / kRank % 2 == 0 ? entry : -entry;
  }
  random.fill(u_);
  keep_the_rest(u_, false);
  scale_to(u_, 1.0);
}

void ActivitySpace::add_combination(const Direction& coordinates, std::span<float> out) const {
  for (size_t e = 0; e < out.size(); ++e) out[e] += coordinates[class_[e]] * entry_[e];
}

void ActivitySpace::keep_the_rest(std::span<float> x, bool remove_u) const {
  Direction along{};
  for (size_t e = 0; e < x.size(); ++e) along[class_[e]] -= x[e] * entry_[e];
  add_combination(along, x);
  const double mean = std::accumulate(x.begin(), x.end(), 0.0) / static_cast<double>(x.size());
  for (float& value : x) value -= static_cast<float>(mean);
  if (remove_u) remove_constant_part(x);
}

void ActivitySpace::remove_constant_part(std::span<float> x) const { subtract(x, dot(x, u_), u_); }

ActivitySpace::Direction ActivitySpace::random_direction(NormalStream& random) {
  Direction direction;
  random.fill(direction);
  scale_to(direction, 1.0);
  return direction;
}

double ActivitySpace::cosine_of(double p) {
  static const std::vector<double> cumulative = cosine_distribution();
  const double below = 1.0 - p;
  const auto above = std::upper_bound(cumulative.begin(), cumulative.end(), below);
  if (above == cumulative.end()) return 1.0;
  const double i = static_cast<double>(above - cumulative.begin()) - 1.0;
  const double within = (below - *(above - 1)) / (*above - *(above - 1));
  return -1.0 + 2.0 * (i + within) / kSteps;
}

void ActivitySpace::input_row(NormalStream& random, const InputShares& shares, std::span<float> out) const {
  const double length = std::sqrt(static_cast<double>(out.size()));
  random.fill(out);
  keep_the_rest(out, true);
  scale_to(out, length * kRestPart * shares.rest);
  Direction direction = random_direction(random);
  scale_to(direction, length * kSpacePart * shares.space);
  add_combination(direction, out);
  subtract(out, -length * kConstantPart * shares.constant, u_);
}

double ActivitySpace::mean_square(const InputShares& shares) {
  const auto square = [](double x) { return x * x; };
  return square(kConstantPart * shares.constant) + square(kSpacePart * shares.space) +
         square(kRestPart * shares.rest);
}

void ActivitySpace::constant_row(double value, std::span<float> out) const {
  std::fill(out.begin(), out.end(), 0.0f);
  subtract(out, -value / (kConstantPart * std::sqrt(static_cast<double>(out.size()))), u_);
}

void ActivitySpace::coordinate_row(int k, std::span<float> out) const {
  for (size_t e = 0; e < out.size(); ++e) out[e] = class_[e] == k ? entry_[e] : 0.0f;
}

double ActivitySpace::u_weight(double cosine) const { return cosine * kSpacePart / kConstantPart; }

void ActivitySpace::gate_row(const Direction& direction, double cosine, std::span<float> out) const {
  std::fill(out.begin(), out.end(), 0.0f);
  add_combination(direction, out);
  subtract(out, u_weight(cosine), u_);
  // <a, w> has a variance of 1 / kRank. An input contains w, scaled to the length of the space part.
  const double gain = std::sqrt(kRank / static_cast<double>(out.size())) / kSpacePart;
  for (float& value : out) value *= static_cast<float>(gain);
}

PlantedPredictor::PlantedPredictor(const ActivitySpace& space, int rank, uint64_t seed)
    : space_(space), rank_(rank), seed_(seed) {
  assert(rank >= kMinRank);
  NormalStream random(seed);
  rotations_.resize(static_cast<size_t>((rank - kRank) / (2 * kRank)));
  for (Rotation& rotation : rotations_) {
    for (int i = 0; i < kRank; ++i) {  // Gram-Schmidt
      ActivitySpace::Direction& row = rotation[static_cast<size_t>(i)];
      random.fill(row);
      for (int j = 0; j < i; ++j) {
        const ActivitySpace::Direction& other = rotation[static_cast<size_t>(j)];
        subtract(row, dot(row, other), other);
      }
      scale_to(row, 1.0);
    }
  }
}

void PlantedPredictor::fc1_row(int row_index, std::span<float> out) const {
  const int block = row_index / kRank, in_block = row_index % kRank;
  const int n_paired = 2 * static_cast<int>(rotations_.size());
  std::fill(out.begin(), out.end(), 0.0f);
  if (block < n_paired) {
    // Rows come in pairs that give relu(h) and relu(-h); the difference of the two is h.
    ActivitySpace::Direction row = rotations_[static_cast<size_t>(block / 2)][static_cast<size_t>(in_block)];
    if (block % 2 == 1) scale_to(row, -1.0);
    space_.add_combination(row, out);
  } else if (block == n_paired) {
    subtract(out, -1.0, space_.u_);
  } else {
    // Fill the remaining rows. fc2 ignores them, but they take the time that a predictor of this rank takes.
    NormalStream random(mix_keys(seed_, static_cast<uint64_t>(row_index)));
    random.fill(out, 1.0f / std::sqrt(static_cast<float>(out.size())));
  }
}

void PlantedPredictor::fc2_row(const ActivitySpace::Direction& direction, double cosine,
                               std::span<float> out) const {
  assert(static_cast<int>(out.size()) == rank_);
  std::fill(out.begin(), out.end(), 0.0f);
  float* block = out.data();
  for (const Rotation& rotation : rotations_) {
    for (int i = 0; i < kRank; ++i) {
      const float weight = static_cast<float>(dot(rotation[static_cast<size_t>(i)], direction));
      block[i] = weight;
      block[kRank + i] = -weight;
    }
    block += 2 * kRank;
  }
  // All values of a weight block are equal, so quantization does not change them.
  const double share = static_cast<double>(rotations_.size()) / kRank;
  std::fill(block, block + kRank, static_cast<float>(-space_.u_weight(cosine) * share));
}

}  // namespace hearth
