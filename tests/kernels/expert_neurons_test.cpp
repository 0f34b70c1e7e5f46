// Tests experts whose zeros are skipped, on the CPU: the results, the counts, and that a token's result is
// bit-identical in any batch, in any order and with any number of threads.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <random>
#include <set>

#include "kernels/cpu/cpu_backend.h"
#include "kernels/quant/dequantize.h"
#include "tests/kernels/expert_layer.h"
#include "tests/support/catch.h"
#include "tests/support/reference_experts.h"
#include "tests/support/sanitized.h"

namespace hearth::test {
namespace {

const LayerKind kTurnedKinds[] = {
    {DType::kQ4_0, DType::kQ4_0, true, true, Activation::kRelu},
    {DType::kQ8_0, DType::kQ8_0, true, false, Activation::kRelu},
    {DType::kQ4_K, DType::kQ4_K, true, true, Activation::kDRelu},
    {DType::kF16, DType::kF16, true, true, Activation::kRelu},
    {DType::kQ4_0, DType::kQ6_K, false, true, Activation::kRelu2},
    {DType::kF32, DType::kQ8_0, false, false, Activation::kRelu},
    // Numbers of columns and neurons that fill no panel, word or strip.
    {DType::kQ8_0, DType::kQ4_0, true, true, Activation::kRelu, 800, 96},
    {DType::kF16, DType::kF16, false, true, Activation::kRelu2, 352, 224},
};

// Added to the gate biases (to the up biases if there are no gates). Gate products are about 1 in size, so
// nearly all, half, about a tenth or none of the neurons are active.
const float kShifts[] = {8.0f, 0.0f, -2.0f, -1000.0f};

std::vector<float> run_counted(CpuBackend& backend, Layer& layer, const Step& step,
                               ExpertCounts* counted = nullptr) {
  std::vector<float> out = step.before;
  ExpertCounts counts;
  backend.experts(layer.experts(), layer.activation(), step.x.data(), step.choice(), out.data(), counts);
  if (counted != nullptr) *counted = counts;
  return out;
}

Layer turned_layer(const LayerKind& kind, float shift) {
  Layer layer(kind, shift);
  layer.turn();
  return layer;
}

std::unique_ptr<CpuBackend> backend_for(const LayerKind& kind, int n_threads, Isa isa, int n_tokens,
                                        int n_used) {
  auto backend = std::make_unique<CpuBackend>(n_threads, isa);
  backend->reserve(bounds_for(n_tokens, kExperts, n_used, kind.d_model));
  return backend;
}

/// A token's neurons in one expert, with double sums. near[j]: whether a gate or value of neuron j is so
/// close to zero that rounding may decide whether the neuron is active.
struct TokenNeurons {
  std::vector<bool> passed, active, near;
};

TokenNeurons reference_neurons(const Expert& expert, FfnActivation activation, const float* x) {
  const std::vector<double> input(x, x + expert.up.n_cols);
  const std::vector<double> ups = testing::reference_product(expert.up, expert.up_bias, input);
  const std::vector<double> gates =
      expert.gate ? testing::reference_product(expert.gate, expert.gate_bias, input) : ups;
  TokenNeurons neurons;
  for (size_t j = 0; j < ups.size(); ++j) {
    const bool up_counts = expert.gate && activation.kind == Activation::kDRelu;
    neurons.passed.push_back(gates[j] > 0);
    neurons.active.push_back(gates[j] > 0 && (!up_counts || ups[j] > 0));
    neurons.near.push_back(std::abs(gates[j]) < 1e-2 || (up_counts && std::abs(ups[j]) < 1e-2));
  }
  return neurons;
}

}  // namespace

TEST_CASE("expert neurons: outputs are those of a double reference", "[experts]") {
  for (const LayerKind& kind : testing::some_cases(kTurnedKinds)) {
    for (const float shift : kShifts) {
      if (!kind.biased && shift != 0.0f) continue;
      Layer layer = turned_layer(kind, shift);
      for (const int n_tokens : {1, 3, 60}) {
        std::mt19937 rng(static_cast<unsigned>(n_tokens));
        const Step step(n_tokens, 4, rng, kind.d_model);
        const int first = std::max(0, n_tokens - 2);  // the reference is slow
        std::vector<double> expected, sizes;
        for (int t = first; t < n_tokens; ++t) {
          std::vector<double> sum(static_cast<size_t>(kind.d_model));
          double size = 1;
          for (int j = 0; j < step.n_used; ++j) {
            const size_t pair = static_cast<size_t>(t * step.n_used + j);
            const std::vector<double> out =
                testing::reference_expert(layer.experts()[static_cast<size_t>(step.experts[pair])],
                                          layer.activation(), step.x.data() + t * kind.d_model);
            double largest = 0;
            for (size_t c = 0; c < out.size(); ++c) {
              sum[c] += double{step.weights[pair]} * out[c];
              largest = std::max(largest, std::abs(out[c]));
            }
            size += double{step.weights[pair]} * largest;
          }
          for (size_t c = 0; c < sum.size(); ++c) {
            expected.push_back(sum[c] + double{step.before[static_cast<size_t>(t * kind.d_model) + c]});
            sizes.push_back(size);
          }
        }
        for (const Isa isa : supported_isas()) {
          const auto backend = backend_for(kind, 2, isa, n_tokens, 4);
          const std::vector<float> out = run_counted(*backend, layer, step);
          double worst = 0;
          for (size_t i = 0; i < expected.size(); ++i) {
            const size_t at = static_cast<size_t>(first * kind.d_model) + i;
            const double error = std::abs(double{out[at]} - expected[i]) / sizes[i];
            worst = std::isnan(error) ? INFINITY : std::max(worst, error);
          }
          INFO(isa_name(isa) << ", kind " << &kind - kTurnedKinds << ", shift " << shift << ", " << n_tokens
                             << " tokens");
          // The bound for experts computed whole, without the rounding of the activation.
          CHECK(worst < 2e-4);
        }
      }
    }
  }
}

TEST_CASE("expert neurons: a token's bits do not depend on batch, order or threads", "[experts]") {
  for (const LayerKind& kind : testing::some_cases(kTurnedKinds)) {
    for (const float shift : kShifts) {
      if (!kind.biased && shift != 0.0f) continue;
      Layer layer = turned_layer(kind, shift);
      std::mt19937 rng(5);
      // 80 of the 120 tokens chose the last expert, and about 50 chose each of the others. Of the 16 tokens
      // in `some`, at most 11 chose the same expert.
      const int n_tokens = 120;
      const Step step(n_tokens, 4, rng, kind.d_model);
      std::vector<int> backward(static_cast<size_t>(n_tokens)), some(16);
      std::iota(backward.rbegin(), backward.rend(), 0);
      std::iota(some.begin(), some.end(), 50);
      const Step turned = step.select(backward);
      std::vector<float> of_vectors;
      for (const Isa isa : testing::model_isas()) {
        if (isa == Isa::kScalar && shift != 0.0f) continue;  // slow
        INFO(isa_name(isa) << ", kind " << &kind - kTurnedKinds << ", shift " << shift);
        std::vector<float> first;
        for (const int n_threads :
             shift == 0.0f && isa != Isa::kScalar ? std::vector<int>{1, 2, 3} : std::vector<int>{1, 3}) {
          const auto backend = backend_for(kind, n_threads, isa, n_tokens, 4);
          const std::vector<float> out = run_counted(*backend, layer, step);
          if (n_threads == 1) first = out;
          CHECK(std::memcmp(out.data(), first.data(), out.size() * sizeof(float)) == 0);
          for (const std::vector<int>& chosen : {std::vector<int>{0}, {119}, {7, 3}, some}) {
            const std::vector<float> few = run_counted(*backend, layer, step.select(chosen));
            for (size_t i = 0; i < chosen.size(); ++i) {
              CHECK(same_row(few, static_cast<int64_t>(i), first, chosen[i], kind.d_model));
            }
          }
          if (n_threads != 3) continue;
          const std::vector<float> reversed = run_counted(*backend, layer, turned);
          bool same = true;
          for (int t = 0; t < n_tokens; ++t) {
            same &= same_row(reversed, n_tokens - 1 - t, first, t, kind.d_model);
          }
          CHECK(same);
        }
        if (isa == Isa::kScalar) continue;
        if (of_vectors.empty()) of_vectors = first;
        CHECK(std::memcmp(of_vectors.data(), first.data(), first.size() * sizeof(float)) == 0);
      }
    }
  }
}

TEST_CASE("expert neurons: rows are counted as they are read", "[experts]") {
  for (const LayerKind& kind : {kTurnedKinds[0], kTurnedKinds[2], kTurnedKinds[4], kTurnedKinds[6]}) {
    Layer layer = turned_layer(kind, -1.0f);
    for (const int n_tokens : {1, 5, 60}) {
      std::mt19937 rng(3);
      const Step step(n_tokens, 3, rng, kind.d_model);
      std::vector<std::set<int64_t>> ups(kExperts), downs(kExperts);
      ExpertCounts expected;
      std::vector<int> tokens_of(kExperts);
      int64_t near = 0;
      for (size_t pair = 0; pair < step.experts.size(); ++pair) {
        const auto e = static_cast<size_t>(step.experts[pair]);
        ++tokens_of[e];
        const TokenNeurons neurons =
            reference_neurons(layer.experts()[e], layer.activation(),
                              step.x.data() + static_cast<int64_t>(pair / 3) * kind.d_model);
        for (int64_t j = 0; j < kind.d_expert; ++j) {
          const auto at = static_cast<size_t>(j);
          near += neurons.near[at] ? 1 : 0;
          expected.passed += neurons.passed[at] ? 1 : 0;
          expected.active += neurons.active[at] ? 1 : 0;
          if (neurons.passed[at]) ups[e].insert(j);
          if (neurons.active[at]) downs[e].insert(j);
        }
      }
      for (size_t e = 0; e < kExperts; ++e) {
        expected.read += tokens_of[e] > 0 ? 1 : 0;
        // An expert with many tokens is multiplied whole.
        const bool few = tokens_of[e] <= ExpertNeurons::kMaxFewTokens;
        if (kind.gated) expected.up_rows += few ? static_cast<int64_t>(ups[e].size()) : kind.d_expert;
        expected.down_rows += static_cast<int64_t>(downs[e].size());
      }
      const auto backend = backend_for(kind, 2, supported_isas().front(), n_tokens, 3);
      ExpertCounts counts;
      run_counted(*backend, layer, step, &counts);
      INFO("kind " << &kind - kTurnedKinds << ", " << n_tokens << " tokens, " << near << " near zero");
      CHECK(counts.chosen == n_tokens * 3);
      CHECK(counts.read == expected.read);
      CHECK(counts.neurons == n_tokens * 3 * kind.d_expert);
      const auto about = [near](int64_t a, int64_t b) { return std::abs(a - b) <= near; };
      CHECK(about(counts.passed, expected.passed));
      CHECK(about(counts.active, expected.active));
      CHECK(about(counts.up_rows, expected.up_rows));
      CHECK(about(counts.down_rows, expected.down_rows));
      CHECK(counts.active < counts.neurons / 2);

      // If computed whole, the same neurons are found, and no single row is read.
      Layer whole(kind, -1.0f);
      ExpertCounts of_whole;
      run_counted(*backend, whole, step, &of_whole);
      CHECK(of_whole.active == counts.active);
      CHECK(of_whole.neurons == counts.neurons);
      CHECK(of_whole.up_rows + of_whole.down_rows == 0);
    }
  }
}

TEST_CASE("expert neurons: without an active neuron only biases are added", "[experts]") {
  Layer layer = turned_layer(kTurnedKinds[0], -1000.0f);
  for (const int n_tokens : {1, 60}) {
    std::mt19937 rng(4);
    const Step step(n_tokens, 2, rng);
    const auto backend = backend_for(kTurnedKinds[0], 2, supported_isas().front(), n_tokens, 2);
    ExpertCounts counts;
    const std::vector<float> out = run_counted(*backend, layer, step, &counts);
    CHECK(counts.passed + counts.active + counts.down_rows == 0);
    bool same = true;
    for (size_t i = 0; i < out.size(); ++i) {
      const size_t t = i / static_cast<size_t>(kModel), c = i % static_cast<size_t>(kModel);
      float sum = 0.0f;
      for (size_t j = 2 * t; j < 2 * t + 2; ++j) {
        const Expert& expert = layer.experts()[static_cast<size_t>(step.experts[j])];
        sum = std::fma(step.weights[j], expert.down_bias[c], sum);
      }
      same &= out[i] == step.before[i] + sum;
    }
    CHECK(same);
  }
}

TEST_CASE("expert neurons: unneeded weights are not touched", "[experts]") {
  Layer layer = turned_layer(kTurnedKinds[0], -2.0f);
  std::mt19937 rng(8);
  Step step(5, 2, rng);
  step.experts = {2, 5, 5, 2, 8, 2, 5, 8, 2, 8};
  const auto backend = backend_for(kTurnedKinds[0], 2, supported_isas().front(), 5, 2);
  const std::vector<float> expected = run_counted(*backend, layer, step);
  for (size_t e = 0; e < layer.experts().size(); ++e) {
    layer.experts()[e].down = {};  // its columns are read instead
    if (e != 2 && e != 5 && e != 8) layer.experts()[e] = {};
  }
  layer.experts()[2].down.n_rows = layer.experts()[5].down.n_rows = layer.experts()[8].down.n_rows = kModel;
  CHECK(run_counted(*backend, layer, step) == expected);
}

TEST_CASE("expert neurons: a weight that is not a number shows in the tokens that read it", "[experts]") {
  const LayerKind kind{DType::kF32, DType::kF32, true, true, Activation::kRelu};
  for (const int n_tokens : {3, 60}) {
    std::mt19937 rng(9);
    Step step(n_tokens, 1, rng);
    for (int t = 0; t < n_tokens; ++t) step.experts[static_cast<size_t>(t)] = t == 1 ? 0 : 1 + t % 2;
    const auto backend = backend_for(kind, 2, supported_isas().front(), n_tokens, 1);
    Layer layer = turned_layer(kind, -2.0f);
    const std::vector<float> good = run_counted(*backend, layer, step);
    for (const bool in_gate : {true, false}) {
      Layer broken(kind, -2.0f);
      const Expert& expert = broken.experts()[0];
      // Puts a NaN into one gate row, or into all up rows: only rows of neurons that pass the gate are read.
      const Matrix& matrix = in_gate ? expert.gate : expert.up;
      for (int64_t j = 0; j < (in_gate ? 1 : kExpert); ++j) {
        std::memcpy(const_cast<std::byte*>(matrix.row(j)), &kNaN, sizeof(float));
      }
      broken.turn();
      const std::vector<float> bad = run_counted(*backend, broken, step);
      bool others = true;
      for (int t = 0; t < n_tokens; ++t) others &= t == 1 || same_row(bad, t, good, t);
      CHECK(others);
      CHECK(std::all_of(bad.begin() + kModel, bad.begin() + 2 * kModel,
                        [](float value) { return std::isnan(value); }));
    }
  }
}

}  // namespace hearth::test
