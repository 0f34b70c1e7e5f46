// PowerInfer's GPU index, <model>.gguf.generated.gpuidx: which neurons of each layer PowerInfer chose for the
// GPU.
//
// A GGUF container with the magic PWRI. Layer i has two int32 tensors: blk.i.gpu_idx (0 or 1 for each neuron)
// and blk.i.gpu_bucket (the ids of the neurons with 1, ascending; no elements if there are none). PowerInfer
// reads the tensors by position, and also writes the layer into their names; this reader requires that
// position and name agree. It does not use gguf::parse_part, because that function accepts only a model's
// tensors, which are neither int32 nor empty. Called by find_activity; any thread.
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <string>

#include "engine/activity/activity_profile.h"

namespace hearth::activity {

/// Reads for each neuron whether PowerInfer chose it for the GPU (1) or not (0). n_layers, d_ff: the model's
/// layers and neurons per layer. Throws ModelFileError if the file is unreadable, damaged, or belongs to
/// another model.
ActivityProfile read_gpu_index(const std::filesystem::path& path, int n_layers, int d_ff);

/// Like read_gpu_index(), but parses `bytes`, a whole file. file: its name for messages
/// (file_error::file_label()).
ActivityProfile parse_gpu_index(std::span<const std::byte> bytes, const std::string& file, int n_layers,
                                int d_ff);

}  // namespace hearth::activity
