// Implements plant_trace().
#include "profiler/synthesis/planted_trace.h"

#include <algorithm>
#include <cassert>
#include <numeric>
#include <vector>

namespace hearth {

void plant_trace(const ModelSpec& spec, const ChoiceLaw& law, int n_tokens, ExpertTrace& trace,
                 const std::function<void(double)>& progress) {
  constexpr int kStepTokens = 64;
  PlantedChoice planted(spec, law);
  assert(planted.n_layers() == trace.layers.size());
  const auto n_used = static_cast<size_t>(trace.n_used);
  std::vector<uint16_t> experts(static_cast<size_t>(n_tokens) * trace.token_experts());
  for (int begin = 0; begin < n_tokens; begin += kStepTokens) {
    std::vector<int32_t> positions(static_cast<size_t>(std::min(kStepTokens, n_tokens - begin)));
    std::iota(positions.begin(), positions.end(), begin);
    planted.begin_step(std::vector<int32_t>(positions.size(), 0), positions);
    for (size_t layer = 0; layer < trace.layers.size(); ++layer) {
      const ExpertChoice choice = planted.next_layer();
      for (size_t t = 0; t < positions.size(); ++t) {
        const size_t token = static_cast<size_t>(begin) + t;
        std::transform(
            choice.experts + t * n_used, choice.experts + (t + 1) * n_used,
            experts.begin() + static_cast<ptrdiff_t>((token * trace.layers.size() + layer) * n_used),
            [](int32_t expert) { return static_cast<uint16_t>(expert); });
      }
    }
    if (progress) progress(static_cast<double>(begin) / n_tokens);
  }
  trace.add_run(TraceText::kGenerated, true, experts);
}

}  // namespace hearth
