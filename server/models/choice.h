// Which files of a repository are one model, of which quantisation, and which of them a user means. Pure; any thread.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "server/models/hub.h"

namespace hearth {

/// One model: a GGUF file, or all parts of a split one in their order.
struct ModelFilesOnHub {
  std::string name;   // path without .gguf and without -00001-of-00003
  std::string quant;  // "Q4_K_M", "UD-Q4_K_XL", in capitals; empty: the name does not say
  std::vector<HubFile> parts;
  bool complete = true;  // all parts are there
  uint64_t bytes() const;
};

/// The models of a repository, by name. Projectors of images (mmproj), importance matrices (imatrix) and adapters are none.
std::vector<ModelFilesOnHub> models_in(std::span<const HubFile> files);

/// The quantisation that a file's name tells: its last word that is one; empty: none is.
std::string quant_of(std::string_view path);

/// A path without .gguf and without a split's -00001-of-00003, and which part of how many it is: 1 of 1 without one.
struct SplitName {
  std::string stem;
  int part = 1, n_parts = 1;
};
SplitName split_name(std::string_view path);

/// The model that the reference means: by its file, by its quantisation (in any case; "Q4_K_XL" means "UD-Q4_K_XL" too), or
/// without either the first there is of preferred_quants(), else of the others the smallest. Throws PullError with what
/// there is if none or several fit, or parts are missing.
ModelFilesOnHub chosen_model(const std::vector<ModelFilesOnHub>& models, const HubReference& reference);

/// The order in which a file is chosen if none is named: about 4 bits, then more, then fewer, then 8 bits and above.
std::span<const std::string_view> preferred_quants();

/// "Q4_K_M (4.9 GB)", one for each model.
std::string models_text(std::span<const ModelFilesOnHub> models);

}  // namespace hearth
