// The facts about the machine and the model's activity that the engine has when it places a model
// (engine/placement/place_model.h). The profiler measures both. Until it has done so, typical values are
// used.
//
// Plain values; any thread.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>

#include "engine/placement/activity_curve.h"
#include "engine/placement/machine_profile.h"

namespace hearth {

struct PlacementSolution;

/// Assumptions that replace missing measurements. Each has a row in docs/predictions.md.
struct PlacementAssumptions {
  /// Predicted mode: number of neurons that a predictor proposes for each active neuron. The predictors of
  /// tests/data/relu propose 23 to 31 % of the neurons, and 18 % are active.
  double proposed_per_active = 1.3;
  /// The share of prefetched neurons that is wanted. useful_predicted applies if a predictor chose the
  /// neurons; 93 to 97 % of the neurons that Deja Vu's lookahead predictors choose are right. useful_repeated
  /// applies if the neurons are those that the previous token wanted in the layer; in a ReGLU model, 25 to 30
  /// % of the active neurons are active again for the next token (DynamicInfer). Among the active neurons
  /// that are not hot, this share is smaller.
  double useful_predicted = 0.9, useful_repeated = 0.2;
  /// The share of the context that is filled while a token is decoded.
  double context_filled = 0.5;
  /// Number of prompt tokens for each generated token. Chats and agents read several times as many tokens as
  /// they write. 0: only decode time counts.
  double prompt_tokens = 4;
  /// A placement with a neuron cache is chosen only if it is predicted to be this many times as fast as a
  /// placement without a cache. On an H200, both were predicted to be equally fast, but the placement with
  /// the cache was 5 % slower.
  double cache_margin = 1.05;
};

struct PlacementFacts {
  /// If the profile has no GPU, the GPU of the typical machine is added.
  MachineProfile machine = typical_machine();
  /// The activity of the model, with neurons numbered as in its file. If it is nullopt because it was not
  /// counted, the published formula for models of this kind (known_law()) is used, with neurons in the
  /// layout's order.
  std::optional<ModelActivity> activity = {};
  // Budget of host memory; ignored if no placement fits into it. 0: no limit.
  int64_t ram_bytes = 0;
  PlacementAssumptions assumptions = {};
  /// Called with the solution, on the loading thread. Not called if the CPU alone would be faster or if RAM
  /// is too small. May be empty.
  std::function<void(const PlacementSolution& solution)> found = {};
};

}  // namespace hearth
