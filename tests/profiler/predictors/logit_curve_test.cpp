// Shares at thresholds, compared with counting them one by one.
#include "profiler/predictors/logit_curve.h"

#include <cmath>

#include "profiler/synthesis/normal_stream.h"
#include "tests/support/catch.h"

namespace hearth::test {
namespace {

struct Neuron {
  float logit, contribution;
};

std::vector<Neuron> some_neurons() {
  std::vector<Neuron> neurons;
  NormalStream random(5);
  std::vector<float> values(2000);
  random.fill(values, 9.0f);
  for (size_t i = 0; i < values.size(); ++i) {
    neurons.push_back({values[i], i % 3 == 0 ? std::fabs(values[values.size() - 1 - i]) : 0.0f});
  }
  for (const float edge : {-24.0f, 0.0f, 24.0f, 1e9f, -1e9f, HUGE_VALF, -HUGE_VALF}) {
    neurons.push_back({edge, 1.0f});
  }
  return neurons;
}

}  // namespace

TEST_CASE("logit curve: shares equal those counted at every threshold") {
  const std::vector<Neuron> neurons = some_neurons();
  LogitCurve curve, half;
  for (size_t i = 0; i < neurons.size(); ++i) {
    (i % 2 == 0 ? curve : half).add(neurons[i].logit, neurons[i].contribution);
  }
  curve.add(half);
  CHECK(curve.n_neurons() == static_cast<int64_t>(neurons.size()));
  for (int step = 0; step < LogitCurve::kSteps; step += 16) {
    double active = 0, proposed = 0, found = 0, squares = 0, missed = 0;
    for (const Neuron& neuron : neurons) {
      const bool is_active = neuron.contribution > 0,
                 is_proposed = neuron.logit >= LogitCurve::threshold(step);
      active += is_active;
      proposed += is_proposed;
      found += is_active && is_proposed;
      const double square = double{neuron.contribution} * double{neuron.contribution};
      squares += square;
      if (!is_proposed) missed += square;
    }
    const double n = static_cast<double>(neurons.size());
    const PredictorShares shares = curve.at(step);
    CHECK(shares.active == Approx(active / n));
    CHECK(shares.proposed == Approx(proposed / n));
    CHECK(shares.recall == Approx(found / active));
    CHECK(shares.false_positives == Approx((proposed - found) / (n - active)));
    CHECK(shares.missed == Approx(missed / squares).margin(1e-9));
    CHECK(curve.mean_square() == Approx(squares / n));
  }
}

TEST_CASE("logit curve: logits that are not numbers are proposed, as the engine does") {
  LogitCurve curve;
  curve.add(std::nanf(""), 1.0f);
  CHECK(curve.at(LogitCurve::kSteps - 1).proposed == 1.0);
}

TEST_CASE("logit curve: highest() finds the highest step that passes") {
  LogitCurve curve;
  for (int i = -100; i < 100; ++i) curve.add(static_cast<float>(i) / 16 + 0.01f, 1.0f);
  const int step = curve.highest([](const PredictorShares& shares) { return shares.recall >= 0.75; });
  CHECK(curve.at(step).recall >= 0.75);
  CHECK(curve.at(step + 1).recall < 0.75);
  CHECK(curve.highest([](const PredictorShares&) { return false; }) == 0);
  CHECK(curve.highest([](const PredictorShares&) { return true; }) == LogitCurve::kSteps - 1);
}

}  // namespace hearth::test
