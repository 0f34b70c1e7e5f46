// Mixtures of experts on the CPU: which experts a router chooses with which weights, what the experts
// compute, and that a token's result has equal bits in any batch, order and number of threads.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>
#include <random>
#include <set>
#include <stdexcept>

#include "kernels/cpu/cpu_backend.h"
#include "tests/kernels/expert_layer.h"
#include "tests/support/catch.h"
#include "tests/support/reference_experts.h"
#include "tests/support/sanitized.h"

namespace hearth::test {
namespace {

// ---- choosing ----

struct Chosen {
  std::vector<int32_t> experts;
  std::vector<float> weights;
};

Chosen route(CpuBackend& backend, const std::vector<float>& logits, const Router& router) {
  const int n_tokens = static_cast<int>(logits.size()) / router.n_experts;
  const ExpertChoice choice = backend.route(logits.data(), n_tokens, router);
  REQUIRE(choice.n_tokens == n_tokens);
  REQUIRE(choice.n_used == router.n_used);
  const int64_t n = int64_t{n_tokens} * router.n_used;
  return {{choice.experts, choice.experts + n}, {choice.weights, choice.weights + n}};
}

Chosen route_one(const std::vector<float>& logits, const Router& router) {
  CpuBackend backend(1, Isa::kScalar);
  backend.reserve(bounds_for(1, router.n_experts, router.n_used));
  return route(backend, logits, router);
}

/// Returns whether the experts are n_used different ones out of n_experts.
bool valid(const int32_t* experts, const Router& router) {
  const std::set<int32_t> all(experts, experts + router.n_used);
  return static_cast<int>(all.size()) == router.n_used && *all.begin() >= 0 &&
         *all.rbegin() < router.n_experts;
}

/// Routers of all kinds for 48 experts.
std::vector<Router> routers(const std::vector<float>& bias) {
  std::vector<Router> all;
  for (const RouterScore score :
       {RouterScore::kSoftmax, RouterScore::kSigmoid, RouterScore::kSoftmaxOfChosen}) {
    for (const bool biased : {false, true}) {
      for (const int n_groups : {1, 6, 48}) {
        for (const bool by_best : {false, true}) {
          Router router;
          router.n_experts = 48;
          router.n_used = all.size() % 5 == 0 ? 1 : 6;
          router.score = score;
          router.choice_bias = biased ? bias.data() : nullptr;
          router.n_groups = n_groups;
          router.n_groups_used = n_groups == 1 ? 1 : n_groups == 6 ? 2 : 20;
          router.group_by_best = by_best;
          router.renormalize = all.size() % 2 == 0;
          router.scale = all.size() % 3 == 0 ? 2.5f : 1.0f;
          if (all.size() % 4 == 1) router.weight_scales = bias.data();
          all.push_back(router);
        }
      }
    }
  }
  return all;
}

}  // namespace

TEST_CASE("router: experts and weights are those of a double reference", "[experts]") {
  constexpr int kTokens = 60;
  std::mt19937 rng(1);
  const std::vector<float> logits = normal_numbers(kTokens * 48, rng, 2.0f),
                           bias = normal_numbers(48, rng, 0.1f);
  for (const Isa isa : supported_isas()) {
    CpuBackend backend(2, isa);
    backend.reserve(bounds_for(kTokens, 48, 6));
    size_t number = 0;
    for (const Router& router : routers(bias)) {
      INFO(isa_name(isa) << ", router " << number++);
      const Chosen chosen = route(backend, logits, router);
      bool same_experts = true;
      double worst = 0;
      for (int t = 0; t < kTokens; ++t) {
        const auto expected = testing::reference_route(logits.data() + t * 48, router);
        for (size_t j = 0; j < expected.experts.size(); ++j) {
          const size_t at = static_cast<size_t>(t * router.n_used) + j;
          same_experts &= chosen.experts[at] == expected.experts[j];
          worst = std::max(worst, std::abs(double{chosen.weights[at]} / expected.weights[j] - 1));
        }
      }
      CHECK(same_experts);
      CHECK(worst < 2e-6);  // e^x is within 2 units, and arguments up to 15 are rounded to 1e-6
    }
  }
}

TEST_CASE("router: the lower number wins among equal scores, for experts and groups", "[experts]") {
  Router router;
  router.n_experts = 12;
  router.n_used = 3;
  CHECK(route_one(std::vector<float>(12, 1.5f), router).experts == std::vector<int32_t>{0, 1, 2});
  router.n_groups = 4;
  router.n_groups_used = 2;
  CHECK(route_one(std::vector<float>(12, 1.5f), router).experts == std::vector<int32_t>{0, 1, 2});
  std::vector<float> logits(12, 1.0f);
  logits[7] = logits[11] = logits[5] = 2.0f;  // in groups 1, 2 and 3
  CHECK(route_one(logits, router).experts == std::vector<int32_t>{5, 7, 3});
}

TEST_CASE("router: a group's score is its best expert's, or the sum of its best two", "[experts]") {
  Router router;
  router.n_experts = 6;
  router.n_used = 2;
  router.score = RouterScore::kSoftmaxOfChosen;
  router.n_groups = 2;
  const std::vector<float> logits = {5.0f, 0.0f, 0.0f, 3.0f, 4.0f, 0.0f};
  router.group_by_best = true;
  CHECK(route_one(logits, router).experts == std::vector<int32_t>{0, 1});
  router.group_by_best = false;
  CHECK(route_one(logits, router).experts == std::vector<int32_t>{4, 3});
}

TEST_CASE("router: the bias affects the choice, not the weights", "[experts]") {
  Router router;
  router.n_experts = 4;
  router.n_used = 2;
  router.score = RouterScore::kSigmoid;
  const std::vector<float> bias = {0.0f, 0.0f, 10.0f, 0.0f};
  router.choice_bias = bias.data();
  const Chosen chosen = route_one({1.0f, 0.0f, -1.0f, 0.5f}, router);
  CHECK(chosen.experts == std::vector<int32_t>{2, 0});
  CHECK(std::abs(chosen.weights[0] - 0.26894143f) < 1e-6f);
  CHECK(std::abs(chosen.weights[1] - 0.73105858f) < 1e-6f);
}

TEST_CASE("router: weights whose sum is zero stay zero", "[experts]") {
  Router router;
  router.n_experts = 3;
  router.n_used = 2;
  router.renormalize = true;
  const std::vector<float> bias = {0.0f, 5.0f, 4.0f};
  router.choice_bias = bias.data();
  const Chosen chosen = route_one({0.0f, -200.0f, -300.0f}, router);
  CHECK(chosen.experts == std::vector<int32_t>{1, 2});
  CHECK(chosen.weights == std::vector<float>{0.0f, 0.0f});
}

TEST_CASE("router: a NaN shows in the weights, and experts stay valid", "[experts]") {
  constexpr int kTokens = 3;
  const float infinity = std::numeric_limits<float>::infinity();
  std::mt19937 rng(2);
  const std::vector<float> good = normal_numbers(kTokens * 48, rng), bias = normal_numbers(48, rng);
  std::vector<float> bad_bias = bias;
  bad_bias[40] = kNaN;
  for (const Isa isa : supported_isas()) {
    CpuBackend backend(1, isa);
    backend.reserve(bounds_for(kTokens, 48, 6));
    for (Router router : routers(bias)) {
      const Chosen expected = route(backend, good, router);
      const auto check = [&](const std::vector<float>& logits) {
        const Chosen chosen = route(backend, logits, router);
        const int n = router.n_used;
        for (int t = 0; t < kTokens; ++t) REQUIRE(valid(chosen.experts.data() + t * n, router));
        for (int j = n; j < 2 * n; ++j) REQUIRE(std::isnan(chosen.weights[static_cast<size_t>(j)]));
        for (const int t : {0, 2}) {  // the others are unchanged
          REQUIRE(std::equal(chosen.experts.data() + t * n, chosen.experts.data() + (t + 1) * n,
                             expected.experts.data() + t * n));
          REQUIRE(std::equal(chosen.weights.data() + t * n, chosen.weights.data() + (t + 1) * n,
                             expected.weights.data() + t * n));
        }
      };
      for (const size_t bad : {0, 17, 47}) {  // one logit of the second token
        std::vector<float> logits = good;
        logits[48 + bad] = kNaN;
        check(logits);
      }
      std::vector<float> logits = good;
      std::fill_n(logits.begin() + 48, 48, kNaN);
      check(logits);
      if (router.score != RouterScore::kSigmoid) {  // infinities only saturate a sigmoid
        std::fill_n(logits.begin() + 48, 48, infinity);
        check(logits);
        std::fill_n(logits.begin() + 48, 48, -infinity);
        check(logits);
      }
      if (router.choice_bias == nullptr) continue;
      router.choice_bias = bad_bias.data();
      const Chosen chosen = route(backend, good, router);
      for (int t = 0; t < kTokens; ++t) REQUIRE(valid(chosen.experts.data() + t * router.n_used, router));
      for (const float weight : chosen.weights) REQUIRE(std::isnan(weight));
    }
  }
}

TEST_CASE("router: a token's bits do not depend on batch or threads", "[experts]") {
  constexpr int kTokens = 300;
  std::mt19937 rng(3);
  const std::vector<float> logits = normal_numbers(kTokens * 48, rng, 2.0f),
                           bias = normal_numbers(48, rng, 0.1f);
  for (const Isa isa : supported_isas()) {
    for (const Router& router : routers(bias)) {
      Chosen first;
      for (const int n_threads : {1, 3}) {
        CpuBackend backend(n_threads, isa);
        backend.reserve(bounds_for(kTokens, 48, 6));
        const Chosen chosen = route(backend, logits, router);
        if (n_threads == 1) first = chosen;
        REQUIRE(chosen.experts == first.experts);
        REQUIRE(chosen.weights == first.weights);
        for (const int t : {0, 1, 299}) {
          const Chosen alone = route(backend, {logits.data() + t * 48, logits.data() + (t + 1) * 48}, router);
          REQUIRE(std::equal(alone.weights.begin(), alone.weights.end(),
                             chosen.weights.data() + t * router.n_used));
          REQUIRE(std::equal(alone.experts.begin(), alone.experts.end(),
                             chosen.experts.data() + t * router.n_used));
        }
      }
    }
  }
}

// ---- computing ----

namespace {

const LayerKind kKinds[] = {
    {DType::kQ4_0, DType::kQ4_0, true, false, Activation::kSilu},
    {DType::kQ8_0, DType::kQ6_K, true, true, Activation::kSwigluOai},
    {DType::kQ6_K, DType::kQ8_0, false, false, Activation::kRelu2},
    {DType::kF16, DType::kQ4_0, true, true, Activation::kGelu},
    {DType::kQ8_0, DType::kF32, false, true, Activation::kSilu},
    {DType::kF32, DType::kF16, true, false, Activation::kSilu},
};

std::vector<float> run(CpuBackend& backend, const Layer& layer, const Step& step) {
  std::vector<float> out = step.before;
  ExpertCounts counts;
  backend.experts(layer.experts(), layer.activation(), step.x.data(), step.choice(), out.data(), counts);
  REQUIRE(counts.chosen == static_cast<int64_t>(step.experts.size()));
  REQUIRE(counts.read ==
          static_cast<int64_t>(std::set<int32_t>(step.experts.begin(), step.experts.end()).size()));
  return out;
}

}  // namespace

TEST_CASE("experts: outputs are those of a double reference", "[experts]") {
  for (const LayerKind& kind : testing::some_cases(kKinds)) {
    const Layer layer(kind);
    for (const int n_tokens : {1, 2, 3, 17, 80}) {
      std::mt19937 rng(static_cast<unsigned>(n_tokens));
      const Step step(n_tokens, n_tokens == 3 ? 1 : 4, rng);
      const int n_checked = std::min(n_tokens, 6);  // the reference is slow
      std::vector<double> expected, sizes;
      for (int t = n_tokens - n_checked; t < n_tokens; ++t) {
        std::vector<double> sum(kModel);
        double size = 0;
        for (int j = 0; j < step.n_used; ++j) {
          const size_t pair = static_cast<size_t>(t * step.n_used + j);
          const std::vector<double> out =
              testing::reference_expert(layer.experts()[static_cast<size_t>(step.experts[pair])],
                                        layer.activation(), step.x.data() + t * kModel);
          double largest = 0;
          for (size_t c = 0; c < out.size(); ++c) {
            sum[c] += double{step.weights[pair]} * out[c];
            largest = std::max(largest, std::abs(out[c]));
          }
          size += double{step.weights[pair]} * largest;
        }
        for (size_t c = 0; c < sum.size(); ++c) {
          expected.push_back(sum[c] + double{step.before[static_cast<size_t>(t) * kModel + c]});
          sizes.push_back(size + 1);
        }
      }
      for (const Isa isa : supported_isas()) {
        CpuBackend backend(2, isa);
        backend.reserve(bounds_for(kMaxTokens, kExperts, 4));
        const std::vector<float> out = run(backend, layer, step);
        double worst = 0;
        for (size_t i = 0; i < expected.size(); ++i) {
          const size_t at = static_cast<size_t>(n_tokens - n_checked) * kModel + i;
          const double error = std::abs(double{out[at]} - expected[i]) / sizes[i];
          worst = std::isnan(error) ? INFINITY : std::max(worst, error);
        }
        INFO(isa_name(isa) << ", kind " << &kind - kKinds << ", " << n_tokens << " tokens");
        // Activations are rounded to 2^-16 of the largest of 32 before each of the two products. Over 256 or
        // 512 columns such errors add up like a random walk, and so do the products.
        CHECK(worst < 2e-4);
      }
    }
  }
}

TEST_CASE("experts: a token's bits do not depend on batch, order or threads", "[experts]") {
  for (const LayerKind& kind : testing::some_cases(kKinds)) {
    const Layer layer(kind);
    std::mt19937 rng(5);
    const Step step(kMaxTokens, 4, rng);
    std::vector<int> backward(kMaxTokens);
    std::iota(backward.rbegin(), backward.rend(), 0);
    const Step turned = step.select(backward);
    std::vector<float> of_vectors;  // all instruction sets but scalar, which rounds multiply-adds twice
    for (const Isa isa : testing::model_isas()) {
      INFO(isa_name(isa) << ", kind " << &kind - kKinds);
      std::vector<float> first;
      for (const int n_threads : isa == Isa::kScalar ? std::vector<int>{1, 3} : std::vector<int>{1, 3, 4}) {
        CpuBackend backend(n_threads, isa);
        backend.reserve(bounds_for(kMaxTokens, kExperts, 4));
        const std::vector<float> out = run(backend, layer, step);
        if (n_threads == 1) first = out;
        CHECK(std::memcmp(out.data(), first.data(), out.size() * sizeof(float)) == 0);
        for (const std::vector<int>& some : {std::vector<int>{0}, {199}, {7, 3}, {5, 6, 7, 8, 9, 10, 11}}) {
          const std::vector<float> few = run(backend, layer, step.select(some));
          for (size_t i = 0; i < some.size(); ++i)
            CHECK(same_row(few, static_cast<int64_t>(i), first, some[i]));
        }
        if (n_threads != 3) continue;
        const std::vector<float> reversed = run(backend, layer, turned);
        bool same = true;
        for (int t = 0; t < kMaxTokens; ++t) same &= same_row(reversed, kMaxTokens - 1 - t, first, t);
        CHECK(same);
      }
      if (isa == Isa::kScalar) continue;
      if (of_vectors.empty()) of_vectors = first;
      CHECK(std::memcmp(of_vectors.data(), first.data(), first.size() * sizeof(float)) == 0);
    }
  }
}

TEST_CASE("experts: 8-bit activations give nearly the same outputs, with equal bits alone and in a batch",
          "[experts]") {
  const Layer layer(kKinds[0]);
  std::mt19937 rng(6);
  const Step step(40, 4, rng);
  for (const Isa isa : supported_isas()) {
    CpuBackend precise(2, isa), backend(2, isa, ActivationBits::k8);
    precise.reserve(bounds_for(40, kExperts, 4));
    backend.reserve(bounds_for(40, kExperts, 4));
    const std::vector<float> out = run(backend, layer, step), expected = run(precise, layer, step);
    double error = 0, size = 0;
    for (size_t i = 0; i < out.size(); ++i) {
      error += std::pow(double{out[i]} - double{expected[i]}, 2);
      size += std::pow(double{expected[i]} - double{step.before[i]}, 2);
    }
    INFO(isa_name(isa));
    // Before each of two consecutive products, activations are rounded to multiples of 1/127 of the largest
    // of 32 values, an error of at most 1/254 of it.
    CHECK(std::sqrt(error / size) < 0.03);
    for (const int t : {0, 39}) CHECK(same_row(run(backend, layer, step.select({t})), 0, out, t));
  }
}

TEST_CASE("experts: rows of missing and of resident experts add up to the bits of all", "[experts]") {
  const LayerKind kind =
      GENERATE(LayerKind{DType::kQ4_0, DType::kQ6_K, /*gated=*/true, /*biased=*/true, Activation::kSilu},
               LayerKind{DType::kF16, DType::kF32, /*gated=*/true, /*biased=*/false, Activation::kRelu},
               LayerKind{DType::kQ8_0, DType::kQ8_0, /*gated=*/false, /*biased=*/true, Activation::kRelu2});
  const Layer layer(kind);
  std::mt19937 rng(3);
  const auto n_used = GENERATE(1, 4);
  const auto n_tokens = GENERATE(1, 2, 40);
  const Step step(n_tokens, n_used, rng);
  CpuBackend backend(2, supported_isas().front());
  backend.reserve(bounds_for(kMaxTokens, kExperts, n_used));
  std::vector<float> expected = step.before;
  ExpertCounts of_all;
  backend.experts(layer.experts(), layer.activation(), step.x.data(), step.choice(), expected.data(), of_all);

  // Each expert is resident or missing; the same call computes first the ones, then the others.
  for (const int residents : {0, 3, kExperts}) {
    std::vector<int32_t> slots, others;
    for (const int32_t expert : step.experts) {
      slots.push_back(expert < residents ? expert : -1);
      others.push_back(expert < residents ? -1 : 0);
    }
    std::vector<float> rows(step.experts.size() * static_cast<size_t>(kModel), kNaN);
    ExpertCounts counts;
    for (const std::vector<int32_t>* held : {&slots, &others}) {
      backend.missing_expert_rows(layer.experts(), layer.activation(), step.x.data(), step.choice(),
                                  held->data(), rows.data(), counts);
    }
    std::vector<float> found = step.before;
    for (size_t i = 0; i < found.size(); ++i) {
      const size_t t = i / kModel, c = i % kModel;
      float sum = 0.0f;
      for (size_t p = t * static_cast<size_t>(n_used); p < (t + 1) * static_cast<size_t>(n_used); ++p)
        sum = std::fma(step.weights[p], rows[p * kModel + c], sum);
      found[i] += sum;
    }
    CHECK(same_row(found, 0, expected, 0, n_tokens * kModel));
    CHECK(counts.chosen == of_all.chosen);
    CHECK(counts.read == of_all.read);
    CHECK(counts.active == of_all.active);
  }
}

TEST_CASE("experts: weights of unchosen experts are not touched", "[experts]") {
  const Layer layer(kKinds[0]);
  std::mt19937 rng(8);
  Step step(5, 2, rng);
  step.experts = {2, 5, 5, 2, 8, 2, 5, 8, 2, 8};
  std::vector<Expert> some(kExperts);  // the others are null pointers
  for (const size_t e : {2, 5, 8}) some[e] = layer.experts()[e];
  CpuBackend backend(2, supported_isas().front());
  backend.reserve(bounds_for(5, kExperts, 2));
  std::vector<float> out = step.before;
  ExpertCounts counts;
  backend.experts(some, layer.activation(), step.x.data(), step.choice(), out.data(), counts);
  backend.experts(some, layer.activation(), step.x.data(), {0, 2, nullptr, nullptr}, nullptr, counts);
  CHECK(counts.chosen == 10);
  CHECK(counts.read == 3);
  CHECK(out == run(backend, layer, step));
}

TEST_CASE("experts: a backend without experts says so", "[experts]") {
  CpuBackend backend(1, Isa::kScalar);
  ExpertCounts counts;
  CHECK_THROWS_AS(backend.Backend::route(nullptr, 0, {}), std::logic_error);
  CHECK_THROWS_AS(backend.Backend::experts({}, {}, nullptr, {}, nullptr, counts), std::logic_error);
}

TEST_CASE("experts: a weight that is not a number shows in its token only", "[experts]") {
  const Layer layer(kKinds[0]);
  std::mt19937 rng(9);
  Step step(3, 2, rng);
  CpuBackend backend(1, supported_isas().front());
  backend.reserve(bounds_for(3, kExperts, 2));
  const std::vector<float> good = run(backend, layer, step);
  step.weights[2] = step.weights[3] = kNaN;
  const std::vector<float> bad = run(backend, layer, step);
  CHECK(same_row(bad, 0, good, 0));
  CHECK(same_row(bad, 2, good, 2));
  CHECK(std::all_of(bad.begin() + kModel, bad.begin() + 2 * kModel,
                    [](float value) { return std::isnan(value); }));
}

}  // namespace hearth::test
