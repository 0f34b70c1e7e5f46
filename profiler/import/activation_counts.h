// Reads PowerInfer's activation counts: a folder of activation_0.pt, activation_1.pt, ..., one tensor [d_ff]
// for each layer.
//
// hearth-profiler count --import converts them to the model's activity file, which the engine reads. The
// number in a file's name is the layer. (PowerInfer's own exporter sorts the names as text, so that layer 2
// gets the counts of layer 10.) Any thread.
#pragma once

#include <filesystem>
#include <string>

#include "engine/activity/activity_file.h"

namespace hearth {

/// Reads the counts of `n_layers` layers of `d_ff` neurons. Other files in the folder are ignored. Throws
/// ModelFileError if there are no such files, a layer is missing, the number of layers or neurons differs
/// from the model's, a count is negative or not a number, or read_torch_vector() refuses a file.
ActivityProfile read_activation_counts(const std::filesystem::path& folder, int n_layers, int d_ff);

/// Converts the counts to activity of this model, as if counted on prompts. PowerInfer does not state how
/// many tokens it counted. The function assumes the smallest number of tokens that meets two conditions: no
/// neuron's count exceeds it, and on average, a token activates at most the share `active_share` of all
/// neurons. The hash of the counts takes the place of the counted text's hash, so that importing the counts
/// twice adds them only once. The sums of activations and the counts of pairs of adjacent tokens are unknown
/// and stay 0. `label` names the folder in messages. Throws ModelFileError if every count is 0. REQUIRES: the
/// profile has the model's shape; 0 < active_share <= 1.
Activity imported_activity(const ActivityProfile& profile, const ModelIdentity& model, double active_share,
                           const std::string& label);

}  // namespace hearth
