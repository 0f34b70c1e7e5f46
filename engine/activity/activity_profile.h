// The activity of each neuron of each FFN, from files beside a model: Hearth's activity files and
// PowerInfer's GPU index.
//
// Read once while a model is loaded, so that neurons that are often active are stored together in memory.
// The profile affects only where a neuron is stored, never whether it is computed. So a file that is damaged
// or belongs to another model is ignored, and a sentence for the log reports this. Plain data; any thread.
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
  /// [n_layers][d_ff, or experts of a mixture] how often the neuron was active; comparable only within a
  /// layer. Finite, not negative. A GPU index gives 1 for neurons chosen for the GPU and 0 for all others.
  std::vector<std::vector<double>> counts;

  /// Neuron ids of a layer, [d_ff], the most active first; ties go to the lower id. REQUIRES: 0 <= layer <
  /// n_layers.
  std::vector<int32_t> hottest_first(int layer) const;
};

struct FoundActivity {
  std::optional<ActivityProfile> profile;  // n_layers layers with d_ff neurons each
  /// For the log: what was found ("activity of 32 layers from m.gguf.activity"), or why an existing file was
  /// ignored, or both. Empty if no file exists.
  std::string sentence;
};

/// The search for a model's own activity files.
struct ActivitySearch {
  std::filesystem::path file;  // an activity file to use first; empty if there is none
  /// Returns the model that the file must belong to. Called only if an activity file exists.
  std::function<ModelIdentity()> model;
};

/// Looks in `search.file`, then in the activity file beside the model file (<model file>.activity, written by
/// hearth-profiler count), then in PowerInfer's index (see the overload below). Uses the first two only if
/// `search.model` is set. Never throws for faulty files.
FoundActivity find_activity(const std::filesystem::path& model_path, int n_layers, int d_ff,
                            const ActivitySearch& search);

/// Looks beside the model file for PowerInfer's <model file>.generated.gpuidx. A folder with PowerInfer's
/// activation counts (activation/activation_*.pt) is not read, but then the returned `sentence` describes
/// how to import it. Never throws for faulty files.
FoundActivity find_activity(const std::filesystem::path& model_path, int n_layers, int d_ff);

}  // namespace hearth
