// How often each neuron of each FFN fires, as files beside a model tell it: PowerInfer's activation counts
// and its GPU index.
//
// Read once while a model is loaded, to lay hot neurons together in memory. Only where a neuron lies depends
// on it, never whether it is computed: a file that is damaged or of another model is ignored, with a sentence
// that says so. Plain data; any thread.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

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

/// Looks beside the model file for activation/activation_*.pt and for <model file>.generated.gpuidx, as
/// PowerInfer leaves them. Counts are preferred: they rank all neurons, the index only parts them in two.
/// Never throws for what is wrong with the files.
FoundActivity find_activity(const std::filesystem::path& model_path, int n_layers, int d_ff);

}  // namespace hearth
