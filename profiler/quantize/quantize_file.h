// Quantises a GGUF model into another file: one tensor after the other, some rows at a time, on many threads.
//
// Memory use does not depend on the model's size. The file has its name when it is whole, and the same bytes with any number
// of threads. Called by the quantize subcommand, on one thread.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <vector>

#include "engine/model/model_file.h"
#include "profiler/quantize/importance.h"
#include "profiler/quantize/mix.h"

namespace hearth {

struct QuantizeOptions {
  uint32_t file_type = 0;  // general.file_type of the new file
  int n_threads = 1;
  bool replace = false;  // a file that exists
};

/// Writes `path`: the keys of `model`, and each tensor in the type that was chosen. progress: called with the share done,
/// rising to 1; what it throws ends the work, leaves no file and goes on to the caller. Returns the file's bytes. Throws
/// std::runtime_error (one sentence): the disk is full, the file exists, or a weight is no finite number that a half can hold.
uint64_t quantize_file(const std::filesystem::path& path, const ModelFile& model,
                       const std::vector<TensorChoice>& choices, const Importance& importance,
                       const QuantizeOptions& options, const std::function<void(double)>& progress);

}  // namespace hearth
