// Quantizes a GGUF model into another file. It encodes one tensor after the other, some rows at a time, on
// many threads.
//
// Memory use does not depend on the model's size. The file gets its final name only when it is complete. Its
// bytes do not depend on the number of threads. Called by the quantize subcommand on one thread.
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
  bool replace = false;  // overwrite an existing file
};

/// Writes the keys of `model`, and each tensor in its chosen type, to `path`. progress: called with the
/// completed share, which rises to 1. If `progress` throws, the work ends, no file is left, and the exception
/// is passed on. Returns the file's size in bytes. Throws std::runtime_error (one sentence) if the disk is
/// full, the file exists, or a weight is not finite or exceeds the range of F16.
uint64_t quantize_file(const std::filesystem::path& path, const ModelFile& model,
                       const std::vector<TensorChoice>& choices, const Importance& importance,
                       const QuantizeOptions& options, const std::function<void(double)>& progress);

}  // namespace hearth
