// The predictor's arithmetic: its gradient compared with finite differences in double, equal bits for any
// number of threads, and descent learns what can be learned.
#include "profiler/predictors/predictor_net.h"

#include <algorithm>
#include <cmath>

#include "profiler/synthesis/normal_stream.h"
#include "tests/support/catch.h"

namespace hearth::test {
namespace {

struct Problem {
  Problem(int d_model, int d_ff, int rank, int n_tokens) : net(empty_net(d_model, d_ff)), n(n_tokens) {
    add_units(net, rank, 7);
    NormalStream random(11);
    random.fill(net.out, 0.5f);  // add_units leaves it at zero
    x.resize(static_cast<size_t>(n * d_model));
    random.fill(x);
    weights.resize(static_cast<size_t>(n * d_ff));
    for (float& w : weights) w = random.bits() % 4 == 0 ? static_cast<float>(random.bits() % 7) : 0.0f;
  }
  PredictorNet net;
  int n;
  std::vector<float> x, weights;
};

/// The mean loss per token, as the header defines it, in double.
double reference_loss(const PredictorNet& net, const Problem& problem) {
  double loss = 0;
  for (int t = 0; t < problem.n; ++t) {
    std::vector<double> hidden(static_cast<size_t>(net.rank));
    for (int k = 0; k < net.rank; ++k) {
      double sum = 0;
      for (int e = 0; e < net.d_model; ++e) {
        sum += double{net.in[static_cast<size_t>(k * net.d_model + e)]} *
               double{problem.x[static_cast<size_t>(t * net.d_model + e)]};
      }
      hidden[static_cast<size_t>(k)] = std::max(sum, 0.0);
    }
    for (int j = 0; j < net.d_ff; ++j) {
      double z = 0;
      for (int k = 0; k < net.rank; ++k) {
        z += double{net.out[static_cast<size_t>(j * net.rank + k)]} * hidden[static_cast<size_t>(k)];
      }
      loss += std::log1p(std::exp(z)) +
              double{problem.weights[static_cast<size_t>(t * net.d_ff + j)]} * std::log1p(std::exp(-z));
    }
  }
  return loss / problem.n;
}

/// d loss / d weights[i], by finite differences.
double slope(const Problem& problem, std::vector<float> PredictorNet::*weights, size_t i) {
  constexpr float kStep = 1e-3f;
  PredictorNet above = problem.net, below = problem.net;
  (above.*weights)[i] += kStep;
  (below.*weights)[i] -= kStep;
  const double moved = double{(above.*weights)[i]} - double{(below.*weights)[i]};
  return (reference_loss(above, problem) - reference_loss(below, problem)) / moved;
}

}  // namespace

TEST_CASE("predictor net: the gradient is that of the loss") {
  // Sizes that fill no vector, tile or piece.
  const Problem problem(33, 70, 19, 13);
  for (const Isa isa : supported_isas()) {
    ThreadPool pool(2);
    FloatProducts products(pool, isa);
    PredictorNet net = problem.net;
    NetTrainer trainer(products, net);
    INFO(isa_name(isa));
    CHECK(trainer.loss(problem.x.data(), problem.weights.data(), problem.n) ==
          Approx(reference_loss(problem.net, problem)).epsilon(1e-4));
    trainer.gradient(problem.x.data(), problem.weights.data(), problem.n);
    for (size_t i = 0; i < net.in.size(); i += 17) {
      CHECK(trainer.in_gradient()[i] ==
            Approx(slope(problem, &PredictorNet::in, i)).epsilon(2e-3).margin(1e-4));
    }
    for (size_t i = 0; i < net.out.size(); i += 29) {
      CHECK(trainer.out_gradient()[i] ==
            Approx(slope(problem, &PredictorNet::out, i)).epsilon(2e-3).margin(1e-4));
    }
  }
}

TEST_CASE("predictor net: steps give the same bits with any number of threads") {
  const Problem problem(64, 200, 32, 48);
  std::vector<PredictorNet> nets;
  for (const int n_threads : {1, 2, 5}) {
    ThreadPool pool(n_threads);
    FloatProducts products(pool, supported_isas().front());
    PredictorNet net = problem.net;
    NetTrainer trainer(products, net);
    for (int i = 0; i < 5; ++i) trainer.step(problem.x.data(), problem.weights.data(), problem.n, 0.01f);
    nets.push_back(net);
  }
  CHECK(nets[0].in != problem.net.in);
  for (const PredictorNet& net : nets) {
    CHECK(net.in == nets[0].in);
    CHECK(net.out == nets[0].out);
  }
}

TEST_CASE("predictor net: more units change no logit before they are trained") {
  Problem problem(32, 40, 8, 6);
  ThreadPool pool(1);
  FloatProducts products(pool, supported_isas().front());
  std::vector<float> hidden, before, after;
  predict(products, problem.net, problem.x.data(), problem.n, hidden, before);
  add_units(problem.net, 24, 7);
  predict(products, problem.net, problem.x.data(), problem.n, hidden, after);
  CHECK(problem.net.rank == 24);
  CHECK(hidden.size() == static_cast<size_t>(6 * 24));
  for (size_t i = 0; i < before.size(); ++i) CHECK(after[i] == Approx(before[i]).margin(1e-5));
}

TEST_CASE("predictor net: training finds neurons that a predictor of this rank can distinguish") {
  // Neuron j is active if a sum of eight hidden units of a planted net is positive.
  constexpr int kModel = 32, kNeurons = 96, kTokens = 2048;
  Problem problem(kModel, kNeurons, 8, kTokens);
  ThreadPool pool(2);
  FloatProducts products(pool, supported_isas().front());
  std::vector<float> hidden, logits;
  predict(products, problem.net, problem.x.data(), kTokens, hidden, logits);
  std::vector<float> weights;
  constexpr float kMiss = 8;
  double n_active = 0;
  for (const float z : logits) {
    weights.push_back(z > 0 ? kMiss : 0.0f);
    n_active += z > 0 ? 1 : 0;
  }
  PredictorNet net = empty_net(kModel, kNeurons);
  add_units(net, 32, 3);
  NetTrainer trainer(products, net);
  const double first = trainer.loss(problem.x.data(), weights.data(), kTokens);
  constexpr int kSteps = 240;
  for (int i = 0; i < kSteps; ++i) {
    const int64_t begin = i % 8 * 256;
    trainer.step(problem.x.data() + begin * kModel, weights.data() + begin * kNeurons, 256,
                 0.02f * static_cast<float>(kSteps - i) / kSteps);
  }
  const double last = trainer.loss(problem.x.data(), weights.data(), kTokens);
  // Every logit is zero at first. At best, those of active neurons are log(8) and those of the others far
  // below 0.
  const double active = n_active / kTokens;
  CHECK(first == Approx((kNeurons + kMiss * active) * std::log(2.0)).epsilon(1e-3));
  const double best = active * (std::log1p(kMiss) + kMiss * std::log1p(1.0 / kMiss));
  CHECK(last < best + 0.2 * (first - best));
  predict(products, net, problem.x.data(), kTokens, hidden, logits);
  int64_t right = 0;
  for (size_t i = 0; i < logits.size(); ++i) right += (logits[i] > 0) == (weights[i] > 0) ? 1 : 0;
  CHECK(static_cast<double>(right) / static_cast<double>(logits.size()) > 0.85);
}

}  // namespace hearth::test
