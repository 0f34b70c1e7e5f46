// Writes a synthetic model to a file, as plain GGUF or in PowerInfer's variant, and makes its vocabulary.
//
// For families that PowerInfer supports, the plain file names the activation under the key
// hearth.ffn_activation. Files of other shapes have the keys and tensors that converters write. PowerInfer's
// variant has its own magic, a transposed ffn_down, and the predictors at the end.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "profiler/synthesis/synth_model.h"

namespace hearth {

struct SynthVocabulary {
  std::vector<std::string> pieces;  // no duplicates
  std::vector<float> scores;        // pieces with higher scores merge first
  std::vector<int32_t> types;       // GGUF's tokenizer.ggml.token_type
};

inline constexpr int kSynthUnknown = 0, kSynthBegin = 1, kSynthEnd = 2;
inline constexpr int kSynthFirstPiece = 3 + 256;  // after the control and byte tokens

/// Fewest and most tokens of a vocabulary.
inline constexpr int kMinSynthVocabulary = kSynthFirstPiece + 1;
inline constexpr int kMaxSynthVocabulary = 1 << 19;

/// REQUIRES: kMinSynthVocabulary <= n <= kMaxSynthVocabulary.
SynthVocabulary make_synth_vocabulary(int n);

enum class SynthKind : uint8_t { kPlain, kSparse };

/// Writes `model`, which must have been made with these options. Calls `progress` with the number of bytes
/// written so far. If `progress` throws, this function leaves no file and passes the exception on. Throws
/// std::runtime_error if `path` exists and may not be replaced, or if writing fails.
void write_synth_file(const std::filesystem::path& path, SynthKind kind, const SynthOptions& options,
                      const SynthModel& model, bool replace, const std::function<void(uint64_t)>& progress);

}  // namespace hearth
