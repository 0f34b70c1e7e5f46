// Converts the folder of a Hugging Face model to a GGUF file.
//
// convert_checkpoint() reads config.json, looks up the model's family, plans tensors and keys, and writes the
// file's header. Then it loads this header with the engine's own functions, so that a model that would not
// run is refused before its tensors are written. Finally it converts and writes the tensors row by row, so
// memory use does not depend on the model's size. The file gets its final name only when it is complete
// (engine/model/gguf/writer.h).
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
  uint64_t n_beyond_half = 0;  // number of finite elements that became infinite in half precision
};

/// Calls `progress` with the share of the bytes that were written, in [0, 1]. If `progress` throws, the
/// conversion ends and leaves no file. Throws std::runtime_error (one sentence); in this case no file is
/// created, and an existing file is unchanged.
ConvertResult convert_checkpoint(const ConvertOptions& options, const std::function<void(double)>& progress);

}  // namespace hearth::convert
