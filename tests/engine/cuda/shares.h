// Ways to share a model's neurons between a device and the CPU.
#pragma once

#include <random>
#include <vector>

#include "engine/model/model_spec.h"
#include "engine/model_runtime.h"
#include "engine/neurons/placement.h"
#include "engine/residency/plan.h"

namespace hearth::testing {

/// The neurons of a layer that the device gets: none, all, every third, about three quarters at random.
enum class Share { kNone, kAll, kThird, kRandom };

inline std::vector<LayerPlacement> shares_of(const ModelSpec& spec, Share share, bool all_gates) {
  std::mt19937 rng(5);
  std::vector<LayerPlacement> shares(static_cast<size_t>(spec.n_layers));
  for (LayerPlacement& layer : shares) {
    layer.all_gates = all_gates && share != Share::kAll;
    for (int32_t j = 0; j < spec.d_ff; ++j) {
      const bool hot = share == Share::kAll || (share == Share::kThird && j % 3 == 0) ||
                       (share == Share::kRandom && rng() % 4 != 0);
      if (hot) layer.hot.push_back(j);
    }
  }
  return shares;
}

/// Returns a LoadOptions::choose_placement that chooses these shares. n_cache: the number of each layer's
/// slots that other neurons use in turn. stream_bytes: see Placement.
inline decltype(LoadOptions::choose_placement) placed(Share share, bool all_gates, int64_t n_cache = 0,
                                                      size_t stream_bytes = 0) {
  return [=](const PlanInputs& in, size_t) {
    std::vector<LayerPlacement> layers = shares_of(in.spec, share, all_gates);
    for (LayerPlacement& layer : layers) layer.n_cache = n_cache;
    return Placement(layers, stream_bytes);
  };
}

}  // namespace hearth::testing
