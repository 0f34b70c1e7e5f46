// The choice of experts on CUDA is the CPU's, with the same bits, and its pairs are sorted by slot.
#include <cmath>
#include <limits>
#include <numeric>
#include <random>

#include "kernels/cpu/cpu_backend.h"
#include "tests/kernels/cuda/bits.h"
#include "tests/kernels/cuda/device_experts.h"
#include "tests/kernels/expert_layer.h"
#include "tests/support/catch.h"

namespace hearth::test {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();

/// Logits and biases, and what the CPU chooses from them.
class RouterCase {
 public:
  RouterCase(const Router& router, int n_tokens, std::mt19937& rng)
      : router_(router),
        n_tokens_(n_tokens),
        logits(normal_numbers(int64_t{n_tokens} * router.n_experts, rng, 2.0f)),
        bias(normal_numbers(router.n_experts, rng, 0.1f)) {}

  /// Compares route() and route_and_group() with the CPU and with a plain sort.
  void check(const TestStream& stream, bool biased, bool looks_up) {
    const HostChoice expected = on_cpu(biased, looks_up);
    const DeviceArray<float> logits_there(logits), bias_there(bias);
    const DeviceArray<int32_t> slots(slot_of_);
    Router router = router_;
    if (biased) router.choice_bias = router.weight_scales = bias_there.data();
    const int32_t* slot_of = looks_up ? slots.data() : nullptr;
    const DeviceChoiceArrays alone(n_tokens_, router.n_used), grouped(n_tokens_, router.n_used);
    cuda::route(logits_there.data(), router, slot_of, alone.view(), stream);
    compare(alone.read(stream), expected);
    const DeviceGroups groups(n_tokens_, router.n_used, router.n_experts, n_slots());
    cuda::route_and_group(logits_there.data(), router, slot_of, grouped.view(), groups.view(), stream);
    compare(grouped.read(stream), expected);
    if (n_tokens_ > 0) {
      REQUIRE(same_groups(groups.read(stream), sorted_groups(expected, groups.view().tile_rows)));
    }
  }

 private:
  // Two experts in three have a slot, in no order.
  int n_slots() {
    std::vector<int32_t> order(static_cast<size_t>(router_.n_experts));
    std::iota(order.begin(), order.end(), 0);
    std::shuffle(order.begin(), order.end(), std::minstd_rand(1));
    slot_of_.assign(order.size(), -1);
    const int n = router_.n_experts * 2 / 3 + 1;
    for (int s = 0; s < n; ++s) slot_of_[static_cast<size_t>(order[static_cast<size_t>(s)])] = s;
    return n;
  }
  HostChoice on_cpu(bool biased, bool looks_up) {
    n_slots();
    CpuBackend cpu(1, *fused_isa());
    cpu.reserve(bounds_for(std::max(1, n_tokens_), router_.n_experts, router_.n_used));
    Router router = router_;
    if (biased) router.choice_bias = router.weight_scales = bias.data();
    const ExpertChoice choice = cpu.route(logits.data(), n_tokens_, router);
    const int64_t n = int64_t{n_tokens_} * router.n_used;
    HostChoice expected{n_tokens_,
                        router.n_used,
                        {choice.experts, choice.experts + n},
                        {choice.weights, choice.weights + n},
                        {}};
    for (const int32_t e : expected.experts)
      expected.slots.push_back(looks_up ? slot_of_[static_cast<size_t>(e)] : -1);
    return expected;
  }
  static void compare(const HostChoice& found, const HostChoice& expected) {
    REQUIRE(found.experts == expected.experts);
    REQUIRE(found.slots == expected.slots);
    REQUIRE(different(found.weights, expected.weights) == 0);
  }

  Router router_;
  int n_tokens_;
  std::vector<int32_t> slot_of_;

 public:
  std::vector<float> logits, bias;
};

std::string describe(const Router& router, int n_tokens) {
  return std::to_string(router.n_used) + " of " + std::to_string(router.n_experts) + " experts, score " +
         std::to_string(static_cast<int>(router.score)) + ", " + std::to_string(router.n_groups_used) +
         " of " + std::to_string(router.n_groups) + " groups, " + std::to_string(n_tokens) + " tokens";
}

constexpr RouterScore kScores[] = {RouterScore::kSoftmax, RouterScore::kSigmoid,
                                   RouterScore::kSoftmaxOfChosen};

struct Size {
  int n_experts, n_used, n_groups = 1, n_groups_used = 1;
};
constexpr Size kSizes[] = {{1, 1},           {2, 1},          {7, 7},         {16, 2, 4, 2},  {31, 5},
                           {32, 4},          {33, 6, 33, 20}, {60, 4},        {64, 8, 8, 3},  {65, 64},
                           {127, 9},         {128, 8},        {160, 6, 8, 3}, {256, 8, 8, 4}, {512, 10},
                           {384, 8, 128, 7}, {1024, 64},      {1000, 17}};

}  // namespace

TEST_CASE("CUDA chooses the CPU's experts with the CPU's weights, for every kind of router") {
  if (!fused_isa()) return;
  const TestStream stream;
  std::mt19937 rng(51);
  int number = 0;
  for (const Size& size : kSizes) {
    for (const RouterScore score : kScores) {
      for (const int n_tokens : {0, 1, 3, 6}) {
        ++number;
        Router router{.n_experts = size.n_experts,
                      .n_used = size.n_used,
                      .score = score,
                      .n_groups = size.n_groups,
                      .n_groups_used = size.n_groups_used};
        router.group_by_best = number % 2 == 0;
        router.renormalize = number % 3 != 0;
        router.scale = number % 5 == 0 ? 2.5f : 1.0f;
        INFO(describe(router, n_tokens));
        RouterCase(router, n_tokens, rng).check(stream, number % 2 == 1, number % 7 != 0);
      }
    }
  }
}

TEST_CASE("CUDA chooses the CPU's experts among equal, infinite and broken logits", "[sanitizer]") {
  if (!fused_isa()) return;
  const TestStream stream;
  std::mt19937 rng(52);
  for (const Size& size : {Size{40, 6}, Size{48, 6, 6, 2}, Size{48, 5, 48, 20}}) {
    for (const RouterScore score : kScores) {
      for (const bool by_best : {false, true}) {
        Router router{.n_experts = size.n_experts,
                      .n_used = size.n_used,
                      .score = score,
                      .n_groups = size.n_groups,
                      .n_groups_used = size.n_groups_used};
        router.group_by_best = by_best;
        router.renormalize = by_best;
        constexpr int kCases = 12;
        RouterCase some(router, kCases, rng);
        const size_t n = static_cast<size_t>(size.n_experts);
        const auto token = [&](size_t t) { return some.logits.begin() + static_cast<int64_t>(t * n); };
        std::fill_n(token(0), n, 1.5f);
        std::fill_n(token(1), n, -kInf);
        std::fill_n(token(2), n, kInf);
        std::fill_n(token(3), n, kNaN);
        for (size_t i = 0; i < n; ++i) {
          token(4)[static_cast<int64_t>(i)] = i % 2 == 0 ? 0.0f : -0.0f;
          token(5)[static_cast<int64_t>(i)] = static_cast<float>(i % 3);
          token(6)[static_cast<int64_t>(i)] = i % 2 == 0 ? -kInf : static_cast<float>(i % 4);
          token(7)[static_cast<int64_t>(i)] = i % 5 == 0 ? kInf : i % 5 == 1 ? -kInf : 1.0f;
        }
        token(8)[3] = kNaN;
        token(9)[static_cast<int64_t>(n) - 1] = kInf;
        std::fill_n(token(10), n, -100.0f);
        token(10)[7] = 100.0f;
        std::fill_n(token(11), n, -1e30f);
        INFO(describe(router, kCases));
        some.check(stream, false, true);
        some.bias[5] = kInf;
        some.bias[6] = -kInf;
        some.check(stream, true, true);
        some.bias[0] = kNaN;
        some.check(stream, true, true);
      }
    }
  }
}

TEST_CASE("CUDA chooses and groups in any order of threads") {
  if (!fused_isa()) return;
  const TestStream stream;
  for_each_schedule([&] {
    std::mt19937 rng(53);
    for (const int n_tokens : {1, cuda::kOneBlockTokens, cuda::kOneBlockTokens + 1}) {
      const Router router{.n_experts = 96, .n_used = 8, .n_groups = 8, .n_groups_used = 4};
      RouterCase(router, n_tokens, rng).check(stream, true, true);
    }
  });
}

TEST_CASE("CUDA chooses and groups in one launch for few tokens", "[emulated]") {
#ifdef HEARTH_CUDA_EMULATED
  const TestStream stream;
  const Router router{.n_experts = 128, .n_used = 8};
  for (const int n_tokens : {1, cuda::kOneBlockTokens, cuda::kOneBlockTokens + 1}) {
    const DeviceArray<float> logits(std::vector<float>(static_cast<size_t>(n_tokens) * 128, 1.0f));
    const DeviceChoiceArrays choice(n_tokens, router.n_used);
    const DeviceGroups groups(n_tokens, router.n_used, router.n_experts, 128);
    cudaemu::reset_stats();
    cuda::route_and_group(logits.data(), router, nullptr, choice.view(), groups.view(), stream);
    stream.wait();
    CHECK(cudaemu::stats().launches == (n_tokens <= cuda::kOneBlockTokens ? 1U : 2U));
  }
#endif
}

/// The groups that group_pairs_on_host() makes in the host's memory.
HostGroups grouped_on_host(HostChoice choice, int n_experts) {
  const size_t n_bytes = cuda::expert_groups_bytes(choice.n_tokens, choice.n_used);
  std::vector<cuda::ExpertTile> memory(n_bytes / sizeof(cuda::ExpertTile) + 1);
  const cuda::ExpertGroups groups =
      cuda::groups_in(memory.data(), choice.n_tokens, choice.n_used, n_experts, n_experts);
  cuda::group_pairs_on_host({.n_tokens = choice.n_tokens,
                             .n_used = choice.n_used,
                             .experts = choice.experts.data(),
                             .weights = choice.weights.data(),
                             .slots = choice.slots.data()},
                            groups);
  return {{groups.row_of_pair, groups.row_of_pair + groups.n_pairs},
          {groups.token_of_row, groups.token_of_row + groups.counts[1]},
          {groups.tiles, groups.tiles + groups.counts[0]}};
}

TEST_CASE("CUDA and the host sort pairs by slot as a stable sort does") {
  const TestStream stream;
  std::mt19937 rng(54);
  struct Step {
    int n_tokens, n_used, n_experts;
  };
  for (const Step& step : {Step{1, 1, 1}, Step{1, 8, 128}, Step{3, 8, 128}, Step{70, 6, 64}, Step{17, 4, 4},
                           Step{200, 8, 32}, Step{300, 10, 512}, Step{1100, 3, 3}}) {
    for (const int missing : {0, 1, 3}) {  // of four experts
      HostChoice choice{step.n_tokens, step.n_used, {}, {}, {}};
      std::vector<int32_t> all(static_cast<size_t>(step.n_experts));
      std::iota(all.begin(), all.end(), 0);
      for (int t = 0; t < step.n_tokens; ++t) {
        std::shuffle(all.begin(), all.end(), rng);
        // Low numbers are more popular, so that slots have unequal numbers of rows.
        if (t % 3 != 0) std::ranges::sort(all.begin(), all.begin() + (step.n_experts + 1) / 2);
        choice.experts.insert(choice.experts.end(), all.begin(), all.begin() + step.n_used);
      }
      for (const int32_t e : choice.experts)
        choice.slots.push_back(e % 4 < missing ? -1 : step.n_experts - 1 - e);
      choice.weights.resize(choice.experts.size());
      const DeviceChoiceArrays there(choice);
      const DeviceGroups groups(step.n_tokens, step.n_used, step.n_experts, step.n_experts);
      cuda::group_pairs(there.view(), groups.view(), stream);
      INFO(step.n_tokens << " tokens, " << step.n_used << " of " << step.n_experts << ", missing "
                         << missing);
      const HostGroups found = groups.read(stream);
      REQUIRE(same_groups(found, sorted_groups(choice, groups.view().tile_rows)));
      REQUIRE(static_cast<int64_t>(found.tiles.size()) <= groups.view().max_tiles);
      REQUIRE(same_groups(grouped_on_host(choice, step.n_experts), found));
    }
  }
}

TEST_CASE("groups: tiles have more rows the more tokens an expert has") {
  const auto tile_rows = [](int n_tokens) {
    return cuda::groups_in(nullptr, n_tokens, 8, 128, 100).tile_rows;
  };
  CHECK(tile_rows(1) == 1);
  CHECK(tile_rows(2) == 4);
  CHECK(tile_rows(48) == 4);
  CHECK(tile_rows(128) == 16);
  CHECK(tile_rows(512) == 32);
  CHECK(tile_rows(2048) == 64);
}

}  // namespace hearth::test
