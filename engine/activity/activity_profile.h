// How often each neuron of each FFN fires, as files beside a model tell it: our own activity files,
// PowerInfer's activation counts and its GPU index.
//
// Read once while a model is loaded, to lay hot neurons together in memory. Only where a neuron lies depends
// on it, never whether it is computed: a file that is damaged or of another model is ignored, with a sentence
// that says so. Plain data; any thread.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "engine/model/model_identity.h"

namespace hearth {

struct ActivityProfile {
  /// [n_layers][d_ff]: how often the neuron was active, relative to its layer's others. Finite, not negative.
  /// From a GPU index: 1 for a neuron that was chosen for the GPU, 0 for the others.
  std::vector<std::vector<double>> counts;

  /// Ids of a layer's neurons, [d_ff]: the most active first, of equals the lower id. REQUIRES: 0 <= layer <
  /// n_layers.
  std::vector<int32_t> hottest_first(int layer) const;
};

struct FoundActivity {
  std::optional<ActivityProfile> profile;  // of n_layers layers with d_ff neurons each
  /// For the log: what was found ("activity counts of 32 layers from .../activation"), or why what is there
  /// was ignored, or both. Empty if nothing is there.
  std::string sentence;
};

/// A model whose own activity files are looked for, and where.
struct ActivitySearch {
  std::filesystem::path file;  // an activity file to take before all others; empty: none
  /// Which model it must be of. Asked only where there is such a file.
  std::function<ModelIdentity()> model;
};

/// Takes `search.file`, or what lies beside the model file: its activity file <model file>.activity, which
/// hearth-profiler count makes (both only if `search.model` is set), else what PowerInfer leaves there, as
/// below. Never throws for what is wrong with the files.
FoundActivity find_activity(const std::filesystem::path& model_path, int n_layers, int d_ff,
                            const ActivitySearch& search);

/// Looks beside the model file for activation/activation_*.pt and for <model file>.generated.gpuidx, as
/// PowerInfer leaves them. Counts are preferred: they rank all neurons, the index only parts them in two.
/// Never throws for what is wrong with the files.
FoundActivity find_activity(const std::filesystem::path& model_path, int n_layers, int d_ff);

}  // namespace hearth
