// A synthetic model as a file: plain GGUF, or PowerInfer's kind of it.
//
// The plain one says by the key hearth.ffn_activation what its activation is; PowerInfer's says it by its
// magic, has ffn_down transposed and ends with the predictors.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>

#include "profiler/synthesis/synth_model.h"

namespace hearth {

enum class SynthKind : uint8_t { kPlain, kSparse };

/// Writes `model`, which options made, at the speed of the disk. Calls `progress` with the bytes written so
/// far; what it throws ends the work, leaves no file and goes on to the caller. Throws std::runtime_error:
/// `path` exists and may not be replaced, or the disk will not.
void write_synth_file(const std::filesystem::path& path, SynthKind kind, const SynthOptions& options,
                      const SynthModel& model, bool replace, const std::function<void(uint64_t)>& progress);

}  // namespace hearth
