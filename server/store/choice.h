// Groups a repository's files into models, reads their quantizations, and finds the model a user means. Pure;
// any thread.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "server/store/hub.h"

namespace hearth {

/// One model: a GGUF file, or all parts of a split model in order.
struct ModelFilesOnHub {
  std::string name;   // path without .gguf and without -00001-of-00003
  std::string quant;  // "Q4_K_M", "UD-Q4_K_XL", in capitals; empty: not in the name
  std::vector<HubFile> parts;
  bool complete = true;  // no part is missing
  uint64_t bytes() const;
};

/// The models of a repository, by name. Skips image projectors (mmproj), importance matrices (imatrix) and
/// adapters.
std::vector<ModelFilesOnHub> models_in(std::span<const HubFile> files);

/// The quantization in a file's name: the last word that is one; empty if there is none.
std::string quant_of(std::string_view path);

/// A path without .gguf and without a split's -00001-of-00003, and the part number; 1 of 1 if the model is
/// not split.
struct SplitName {
  std::string stem;
  int part = 1, n_parts = 1;
};
SplitName split_name(std::string_view path);

/// The model that the reference means: by file, by quantization (in any case; "Q4_K_XL" also matches
/// "UD-Q4_K_XL"), or without either the first match of preferred_quants(), else the smallest model. Throws
/// PullError that lists the models if none or several match, or parts are missing.
ModelFilesOnHub chosen_model(const std::vector<ModelFilesOnHub>& models, const HubReference& reference);

/// The order of preference if no file is named: about 4 bits, then more, then fewer, then 8 bits and above.
std::span<const std::string_view> preferred_quants();

/// "Q4_K_M (4.9 GB)", one per model.
std::string models_text(std::span<const ModelFilesOnHub> models);

}  // namespace hearth
