// How often each neuron of each FFN is active, as files beside a model say it: Hearth's own activity files and
// PowerInfer's GPU index.
//
// Read once while a model is loaded, to place neurons that are often active together in memory. This affects
// only where a neuron lies, never whether it is computed: a file that is damaged or of another model is ignored,
// and a sentence says so. Plain data; any thread.
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
  /// [n_layers][d_ff, or experts of a mixture]: how often the neuron was active, relative to its layer's others. Finite, not negative.
  /// From a GPU index: 1 for a neuron that was chosen for the GPU, 0 for the others.
  std::vector<std::vector<double>> counts;

  /// Ids of a layer's neurons, [d_ff]: the most active first, of equals the lower id. REQUIRES: 0 <= layer <
  /// n_layers.
  std::vector<int32_t> hottest_first(int layer) const;
};

struct FoundActivity {
  std::optional<ActivityProfile> profile;  // of n_layers layers with d_ff neurons each
  /// For the log: what was found ("activity of 32 layers from m.gguf.activity"), or why what is there was
  /// ignored, or both. Empty if nothing is there.
  std::string sentence;
};

/// A model whose own activity files are looked for, and where.
struct ActivitySearch {
  std::filesystem::path file;  // an activity file to take before all others; empty: none
  /// Which model it must be of. Asked only where there is such a file.
  std::function<ModelIdentity()> model;
};

/// Looks in `search.file`, then beside the model file: in its activity file <model file>.activity, which
/// hearth-profiler count makes (both only if `search.model` is set), then in PowerInfer's index, as below. Never
/// throws for what is wrong with the files.
FoundActivity find_activity(const std::filesystem::path& model_path, int n_layers, int d_ff,
                            const ActivitySearch& search);

/// Looks beside the model file for PowerInfer's <model file>.generated.gpuidx. A folder of PowerInfer's
/// activation counts (activation/activation_*.pt) is not read; the sentence says how to import it. Never throws
/// for what is wrong with the files.
FoundActivity find_activity(const std::filesystem::path& model_path, int n_layers, int d_ff);

}  // namespace hearth
