// See the header.
#include "kernels/cuda/hybrid/expert_division.h"

#include <algorithm>

namespace hearth::cuda {
namespace {

/// The CPU reads an expert's weights at least once, which takes this part of the time to copy them: RAM is a
/// few times as fast as PCIe.
constexpr double kReadShare = 1.0 / 3;
/// If experts have fewer tokens than this part of the tokens that are worth a copy, the CPU computes nearly
/// all experts before a copy of one arrives.
constexpr double kLeastTokens = 1.0 / 4;
/// kLess, kMore: the factors by which copy_tokens_ is corrected if the CPU or the device ended last. The
/// first is further from 1, because a late CPU delays the step, while a late device only wastes the CPU's
/// time. kLeastOfFirst, kMostOfFirst: copy_tokens_ stays between these multiples of its first value.
constexpr double kLess = 0.85, kMore = 1.02, kLeastOfFirst = 1.0 / 64, kMostOfFirst = 4;

}  // namespace

bool ExpertDivision::copies(int64_t tokens_per_expert) const {
  if (first_copy_tokens_ <= 1) return first_copy_tokens_ > 0 && tokens_per_expert >= 1;
  return tokens_per_expert >= 2 && static_cast<double>(tokens_per_expert) >= kLeastTokens * copy_tokens_;
}

void ExpertDivision::divide(int layer, int n_tokens, int n_used, int n_experts, std::vector<int32_t>& missing,
                            std::vector<int32_t>& on_cpu) {
  on_cpu.clear();
  if (first_copy_tokens_ <= 1) return;
  // 1. Sort the missing experts by their expected tokens.
  expected_.assign(static_cast<size_t>(n_experts), double(n_tokens) * n_used / n_experts);
  const auto i = static_cast<size_t>(layer);
  if (i < last_.size() && last_[i].n_tokens > 0) {
    const Choice& last = last_[i];
    for (size_t e = 0; e < last.tokens_of.size(); ++e)
      expected_[e] = static_cast<double>(last.tokens_of[e]) * n_tokens / last.n_tokens;
  }
  const auto tokens_of = [&](int32_t expert) { return expected_[static_cast<size_t>(expert)]; };
  std::ranges::stable_sort(missing, {}, tokens_of);
  // 2. The CPU takes the first of them, until it would need longer than the copies of the others.
  double cpu = 0;
  size_t n = 0;
  for (; n < missing.size(); ++n) {
    cpu += std::max(tokens_of(missing[n]), kReadShare * copy_tokens_);
    if (cpu > copy_tokens_ * static_cast<double>(missing.size() - n - 1)) break;
  }
  const auto end = missing.begin() + static_cast<ptrdiff_t>(n);
  on_cpu.assign(missing.begin(), end);
  missing.erase(missing.begin(), end);
  std::ranges::sort(on_cpu);
  std::ranges::sort(missing);
}

void ExpertDivision::chose(int layer, int n_experts, const ExpertChoice& choice) {
  const auto i = static_cast<size_t>(layer);
  if (i >= last_.size()) last_.resize(i + 1);
  Choice& last = last_[i];
  last.n_tokens = choice.n_tokens;
  last.tokens_of.assign(static_cast<size_t>(n_experts), 0);
  for (const int32_t e : std::span(choice.experts, size_t(choice.n_tokens) * size_t(choice.n_used)))
    ++last.tokens_of[static_cast<size_t>(e)];
}

void ExpertDivision::ended(bool cpu_was_last) {
  copy_tokens_ = std::clamp(copy_tokens_ * (cpu_was_last ? kLess : kMore), kLeastOfFirst * first_copy_tokens_,
                            kMostOfFirst * first_copy_tokens_);
}

}  // namespace hearth::cuda
