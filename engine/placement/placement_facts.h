// The facts that the engine has about the machine and the model's activity when it places a model
// (engine/placement/place_model.h). The profiler measures both; until then there are typical values.
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

/// Assumptions where there is no measurement. Each is a row of docs/predictions.md.
struct PlacementAssumptions {
  /// Predicted mode: number of neurons that a predictor proposes for each active one. The predictors of
  /// tests/data/relu propose 23 to 31 % of the neurons where 18 % are active.
  double proposed_per_active = 1.3;
  /// The share of prefetched neurons that is wanted. useful_predicted: if the next layer's predictor chose
  /// them; Deja Vu's lookahead predictors are right for 93 to 97 %. useful_repeated: if the layer's last
  /// token wanted them; 25 to 30 % of a ReGLU model's active neurons are active again (DynamicInfer), fewer
  /// if they are not hot.
  double useful_predicted = 0.9, useful_repeated = 0.2;
  /// The share of the context that is filled when a token is decoded.
  double context_filled = 0.5;
  /// Prompt tokens that are read for each generated one. Chats and agents read several times as many as they
  /// write. 0: only decoding counts.
  double prompt_tokens = 4;
  /// A placement with a cache of neurons must promise this much more than one without. On an H200, where both
  /// promised the same, the one with the cache was 5 % slower.
  double cache_margin = 1.05;
};

struct PlacementFacts {
  /// A profile without a GPU is completed by the typical machine's.
  MachineProfile machine = typical_machine();
  /// The activity of the model, with neurons numbered as in its file. nullopt: not counted. Then it is the
  /// law for models of its kind (known_law()), with neurons in the layout's order.
  std::optional<ModelActivity> activity = {};
  int64_t ram_bytes = 0;  // budget, kept if any placement keeps it; 0: no limit
  PlacementAssumptions assumptions = {};
  /// Called with the solution, on the loading thread, unless the CPU alone would be faster or RAM is too
  /// small; may be empty.
  std::function<void(const PlacementSolution& solution)> found = {};
};

}  // namespace hearth
