// The division of a prompt's missing experts: the CPU gets the experts with few tokens, and its part follows
// the times.
#include "kernels/cuda/hybrid/expert_division.h"

#include <algorithm>
#include <numeric>
#include <vector>

#include "tests/support/catch.h"

namespace hearth::test {
namespace {

using cuda::ExpertDivision;

constexpr int kOfLayer = 16, kOfToken = 2;  // experts

struct Parts {
  std::vector<int32_t> copied, on_cpu;
};

/// Divides all experts from `first` on.
Parts divide(ExpertDivision& division, int n_tokens, int32_t first = 0) {
  Parts parts;
  for (int32_t e = first; e < kOfLayer; ++e) parts.copied.push_back(e);
  division.divide(0, n_tokens, kOfToken, kOfLayer, parts.copied, parts.on_cpu);
  return parts;
}

}  // namespace

TEST_CASE("CUDA: the CPU gets as many experts as it computes while the others are copied") {
  ExpertDivision division(40);
  const Parts parts = divide(division, 320);  // 40 tokens per expert: a copy takes as long as the CPU
  CHECK(parts.on_cpu.size() == 8);
  CHECK(parts.copied.size() == 8);
  CHECK(divide(division, 3200).on_cpu.size() == 1);
  CHECK(divide(division, 32000).on_cpu.empty());
  // With few tokens, the CPU needs a third of a copy's time to read an expert.
  CHECK(divide(division, 16).on_cpu.size() == 12);
}

TEST_CASE("CUDA: each missing expert is either copied or computed by the CPU") {
  ExpertDivision division(30);
  for (const int n_tokens : {1, 50, 200, 1000}) {
    for (int32_t first = 0; first <= kOfLayer; ++first) {
      Parts parts = divide(division, n_tokens, first);
      CHECK(std::ranges::is_sorted(parts.copied));
      CHECK(std::ranges::is_sorted(parts.on_cpu));
      std::vector<int32_t> all = parts.copied, expected(static_cast<size_t>(kOfLayer - first));
      all.insert(all.end(), parts.on_cpu.begin(), parts.on_cpu.end());
      std::ranges::sort(all);
      std::iota(expected.begin(), expected.end(), first);
      CHECK(all == expected);
    }
  }
}

TEST_CASE("CUDA: the CPU gets the experts that had the fewest tokens in the layer's last long step") {
  ExpertDivision division(40);
  // Experts 0, 3, 6, ... have a third of the tokens of the others.
  std::vector<int32_t> experts;
  for (int t = 0; t < 480; ++t)
    experts.push_back(t % kOfLayer % 3 == 0 && t / kOfLayer % 3 != 0 ? 1 : t % kOfLayer);
  const std::vector<float> weights(experts.size());
  const ExpertChoice choice{.n_tokens = static_cast<int>(experts.size()) / kOfToken,
                            .n_used = kOfToken,
                            .experts = experts.data(),
                            .weights = weights.data()};
  division.chose(0, kOfLayer, choice);
  const Parts parts = divide(division, 1600);
  REQUIRE(parts.on_cpu.size() >= 2);
  for (const int32_t e : parts.on_cpu) CHECK(e % 3 == 0);
  ExpertDivision other(40), unknown(40);
  other.chose(1, kOfLayer, choice);  // another layer's choice says nothing
  CHECK(divide(other, 1600).on_cpu == divide(unknown, 1600).on_cpu);
}

TEST_CASE("CUDA: the CPU's part of missing experts follows which side ended last") {
  ExpertDivision division(40);
  const size_t first = divide(division, 320).on_cpu.size();
  for (int i = 0; i < 10; ++i) division.ended(/*cpu_was_last=*/true);
  CHECK(divide(division, 320).on_cpu.size() < first);
  for (int i = 0; i < 200; ++i) division.ended(/*cpu_was_last=*/false);
  CHECK(divide(division, 320).on_cpu.size() > first);
  for (int i = 0; i < 1000; ++i) division.ended(/*cpu_was_last=*/true);
  CHECK(divide(division, 320).on_cpu.empty());
  for (int i = 0; i < 300; ++i) division.ended(/*cpu_was_last=*/false);
  CHECK(divide(division, 320).on_cpu.size() > first);  // corrections are limited, so they can be reversed
}

TEST_CASE("CUDA: nothing is divided if the CPU may compute no experts, or if nothing is copied") {
  ExpertDivision only_copies(1), never(0);
  CHECK(only_copies.copies(1));
  CHECK(divide(only_copies, 100).on_cpu.empty());
  CHECK(!never.copies(100000));
  ExpertDivision division(40);
  CHECK(!division.copies(1));
  CHECK(!division.copies(9));
  CHECK(division.copies(10));
}

}  // namespace hearth::test
