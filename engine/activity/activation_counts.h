// PowerInfer's activation counts: a folder of activation_0.pt, activation_1.pt, ..., one tensor [d_ff] a
// layer.
//
// Layers are taken by the number in the name. (PowerInfer's own exporter sorts the names as text, so that
// layer 2 gets the counts of layer 10.) Called by find_activity; any thread.
#pragma once

#include <filesystem>

#include "engine/activity/activity_profile.h"

namespace hearth::activity {

/// Reads the counts of `n_layers` layers of `d_ff` neurons. Other files in the folder are left alone. Throws
/// ModelFileError: no such files, a layer missing, more or fewer layers or neurons than the model's, a count
/// that is negative or no number, or a file that read_torch_vector refuses.
ActivityProfile read_activation_counts(const std::filesystem::path& folder, int n_layers, int d_ff);

}  // namespace hearth::activity
