// Planted activity before quantization: the power law, and gates and predictors that fire as planned.
#include "profiler/synthesis/synth_activity.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "tests/support/catch.h"

namespace hearth::test {
namespace {

constexpr int kModel = 256, kPredictorRank = 128;

double dot(std::span<const float> a, std::span<const float> b) {
  return std::inner_product(a.begin(), a.end(), b.begin(), 0.0);
}

TEST_CASE("firing probabilities have the requested mean and fall as a power law") {
  for (const double mean : {0.005, 0.03, 0.18, 0.5, 0.95}) {
    CAPTURE(mean);
    const std::vector<double> p = firing_probabilities(1000, mean);
    CHECK(std::accumulate(p.begin(), p.end(), 0.0) / 1000 == Approx(mean).epsilon(1e-6));
    CHECK(std::is_sorted(p.rbegin(), p.rend()));
    CHECK(p.front() <= 0.98);
    CHECK(p.back() > 0.0);
  }
  const std::vector<double> p = firing_probabilities(1000, 0.03);
  CHECK(std::accumulate(p.begin(), p.begin() + 270, 0.0) / 30.0 == Approx(0.8).epsilon(0.02));
}

TEST_CASE("the cosine for a probability is exceeded with that probability") {
  NormalStream random(5);
  const ActivitySpace::Direction a = ActivitySpace::random_direction(random);
  constexpr int kDraws = 40'000;
  std::vector<double> cosines(kDraws);
  for (double& cosine : cosines) cosine = dot(a, ActivitySpace::random_direction(random));
  for (const double p : {0.98, 0.5, 0.18, 0.02}) {
    const double x = ActivitySpace::cosine_of(p);
    const double above = static_cast<double>(
        std::count_if(cosines.begin(), cosines.end(), [&](double cosine) { return cosine > x; }));
    CHECK(std::fabs(above / kDraws - p) < 5 * std::sqrt(p * (1 - p) / kDraws));
  }
  CHECK(ActivitySpace::cosine_of(0.5) == Approx(0.0).margin(1e-3));
}

TEST_CASE("a gate fires as often as planted, whatever the norm, and the predictor predicts when") {
  const ActivitySpace space(kModel, 1);
  const PlantedPredictor predictor(space, kPredictorRank, 2);
  NormalStream random(3);
  std::vector<float> gate(kModel), input(kModel), fc1(kModel), fc2(kPredictorRank);
  for (const double p : {0.9, 0.3, 0.05}) {
    CAPTURE(p);
    const ActivitySpace::Direction direction = ActivitySpace::random_direction(random);
    const double cosine = ActivitySpace::cosine_of(p);
    space.gate_row(direction, cosine, gate);
    predictor.fc2_row(direction, cosine, fc2);
    // LayerNorm's centering subtracts a multiple of the vector of ones, which is nothing that the gate sees.
    CHECK(std::accumulate(gate.begin(), gate.end(), 0.0) == Approx(0.0).margin(1e-4));
    constexpr int kDraws = 1000;
    int n_fired = 0, n_agreed = 0;
    double square = 0.0, sum = 0.0;
    for (int i = 0; i < kDraws; ++i) {
      space.input_row(random, {}, input);
      CHECK(dot(input, input) == Approx(kModel).epsilon(1e-3));
      const double product = dot(gate, input);
      double logit = 0.0;
      for (int row = 0; row < kPredictorRank; ++row) {
        predictor.fc1_row(row, fc1);
        logit += std::max(0.0, dot(fc1, input)) * static_cast<double>(fc2[static_cast<size_t>(row)]);
      }
      n_fired += product > 0 ? 1 : 0;
      n_agreed += (product > 0) == (logit > 0) || std::fabs(product) < 1e-4 ? 1 : 0;
      sum += product;
      square += product * product;
    }
    CHECK(std::fabs(n_fired / 1000.0 - p) < 5 * std::sqrt(p * (1 - p) / kDraws));
    CHECK(n_agreed == kDraws);
    CHECK(square / kDraws - sum / kDraws * (sum / kDraws) == Approx(1.0).epsilon(0.2));
  }
}

TEST_CASE("an input split over two rows is restored by their sum") {
  const ActivitySpace space(kModel, 1);
  NormalStream random(3);
  std::vector<float> token(kModel), position(kModel), gate(kModel);
  const ActivitySpace::Direction direction = ActivitySpace::random_direction(random);
  space.gate_row(direction, ActivitySpace::cosine_of(0.3), gate);
  int n_fired = 0;
  double square = 0.0;
  for (int i = 0; i < 2000; ++i) {
    space.input_row(random, {1.0, std::sqrt(0.5), std::sqrt(0.5)}, token);
    space.input_row(random, {0.0, std::sqrt(0.5), std::sqrt(0.5)}, position);
    for (size_t e = 0; e < token.size(); ++e) token[e] += position[e];
    n_fired += dot(gate, token) > 0 ? 1 : 0;
    square += dot(token, token);
  }
  CHECK(n_fired / 2000.0 == Approx(0.3).margin(0.05));
  CHECK(square / 2000 == Approx(kModel).epsilon(0.02));
}

TEST_CASE("an output row without its constant part ignores the inputs' constant part") {
  const ActivitySpace space(kModel, 1);
  NormalStream random(3);
  std::vector<float> row(kModel), input(kModel);
  random.fill(row);
  space.remove_constant_part(row);
  space.input_row(random, {1.0, 0.0, 0.0}, input);  // only the constant part
  CHECK(dot(row, input) == Approx(0.0).margin(1e-3));
}

}  // namespace
}  // namespace hearth::test
