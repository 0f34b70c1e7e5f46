// A synthetic model as a file, plain GGUF or PowerInfer's variant, and the vocabulary that it gets.
//
// The plain file of a family that PowerInfer knows names its activation under the key hearth.ffn_activation. Files of other
// shapes have the keys and tensors that converters write. PowerInfer's variant says it by
// its magic, has ffn_down transposed and ends with the predictors.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "profiler/synthesis/synth_model.h"

namespace hearth {

struct SynthVocabulary {
  std::vector<std::string> pieces;  // no two alike
  std::vector<float> scores;        // higher merges first
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

/// Writes `model`, which options made, at the speed of the disk. Calls `progress` with the bytes written so
/// far; what it throws ends the work, leaves no file and goes on to the caller. Throws std::runtime_error:
/// `path` exists and may not be replaced, or the disk will not.
void write_synth_file(const std::filesystem::path& path, SynthKind kind, const SynthOptions& options,
                      const SynthModel& model, bool replace, const std::function<void(uint64_t)>& progress);

}  // namespace hearth
