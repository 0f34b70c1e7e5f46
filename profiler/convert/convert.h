// Converts the folder of a Hugging Face model to a GGUF file.
//
// The order of work: read config.json and find the family's row, plan tensors and keys, write the file's head
// and load it with the engine (so a model that would not run is refused before a tensor is written), then
// stream the tensors. Memory use does not depend on the model's size; the file gets its name when it is
// complete (engine/model/gguf/writer.h).
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>

#include "kernels/dtype.h"

namespace hearth::convert {

struct ConvertOptions {
  std::filesystem::path folder, out;
  std::string type = "auto";  // "auto": the checkpoint's own type; or a type that can_quantize() accepts
  std::string name;           // general.name; empty: the folder's name
  std::string pre;            // the pre-tokenizer's name; empty: find it
  bool replace = false;
};

struct ConvertResult {
  std::string architecture, pre;
  DType type = DType::kF16;
  uint64_t n_tensors = 0, n_elements = 0, file_bytes = 0;
  uint64_t n_beyond_half = 0;  // values that half precision cannot hold and that became infinite
};

/// progress: called with the share of the bytes written; if it throws, the work ends and leaves no file.
/// Throws std::runtime_error (one sentence); then there is no file, or an existing one is unchanged.
ConvertResult convert_checkpoint(const ConvertOptions& options, const std::function<void(double)>& progress);

}  // namespace hearth::convert
