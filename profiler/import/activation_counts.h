// PowerInfer's activation counts: a folder of activation_0.pt, activation_1.pt, ..., one tensor [d_ff] for
// each layer.
//
// hearth-profiler count --import turns them into the model's activity file, which is what the engine reads.
// Layers are taken by the number in the name. (PowerInfer's own exporter sorts the names as text, so that
// layer 2 gets the counts of layer 10.) Any thread.
#pragma once

#include <filesystem>
#include <string>

#include "engine/activity/activity_file.h"

namespace hearth {

/// Reads the counts of `n_layers` layers of `d_ff` neurons. Other files in the folder are ignored. Throws
/// ModelFileError: no such files, a layer missing, more or fewer layers or neurons than the model's, a count
/// that is negative or no number, or a file that read_torch_vector refuses.
ActivityProfile read_activation_counts(const std::filesystem::path& folder, int n_layers, int d_ff);

/// The counts as activity of this model, counted on prompts. PowerInfer does not say on how many tokens it
/// counted: the number is chosen so that `active_share` of all neurons are active for a token on average, and
/// so that it is no less than the largest count. The hash of the counts stands for the text they were counted
/// on, so that importing them twice counts them once. Values and pairs of tokens are unknown and stay 0.
/// `label` names the folder in messages. Throws ModelFileError if every count is 0. REQUIRES: a profile of
/// the model's shape; 0 < active_share <= 1.
Activity imported_activity(const ActivityProfile& profile, const ModelIdentity& model, double active_share,
                           const std::string& label);

}  // namespace hearth
