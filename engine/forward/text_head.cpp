// See the header.
#include "engine/forward/text_head.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "engine/forward/layer_call.h"

namespace hearth {
namespace {

int64_t widest_of(const std::vector<HeadStage>& stages) {
  int64_t widest = 0;
  for (const HeadStage& stage : stages)
    widest = std::max({widest, stage.linear.weight.n_rows, stage.linear.weight.n_cols});
  return widest;
}

void activate(Backend& cpu, HeadActivation activation, int64_t n, float* x) {
  switch (activation) {
    case HeadActivation::kNone:
      return;
    case HeadActivation::kTanh:
      for (int64_t i = 0; i < n; ++i) x[i] = std::tanh(x[i]);
      return;
    case HeadActivation::kGeluErf:
      cpu.gated_activation({Activation::kGeluErf}, x, nullptr, n, x);
      return;
  }
}

}  // namespace

TextHead::TextHead(Backend& cpu, const std::vector<HeadStage>& stages, float norm_eps)
    : cpu_(cpu),
      stages_(stages),
      norm_eps_(norm_eps),
      from_(floats(cpu, 1, widest_of(stages))),
      to_(floats(cpu, 1, widest_of(stages))) {}

std::span<const float> TextHead::apply(std::span<const float> pooled) {
  std::ranges::copy(pooled, from_.floats());
  for (const HeadStage& stage : stages_) {
    const int64_t n = stage.linear.weight.n_rows;
    cpu_.matmul(from_.floats(), 1, std::array{product(stage.linear, to_.floats())});
    activate(cpu_, stage.activation, n, to_.floats());
    if (stage.norm != nullptr)
      cpu_.layer_norm(to_.floats(), stage.norm, nullptr, norm_eps_, 1, n, to_.floats());
    std::swap(from_, to_);
  }
  return {from_.floats(), static_cast<size_t>(stages_.back().linear.weight.n_rows)};
}

}  // namespace hearth
