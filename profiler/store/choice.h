// Groups the files of a repository into models, determines their quantizations, and selects the model that a
// reference names. Pure functions; any thread may call them.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "profiler/store/hub.h"

namespace hearth {

/// A model: one GGUF file, or all parts of a split model in order.
struct ModelFilesOnHub {
  std::string name;   // path without .gguf and without the -00001-of-00003 of a split model
  std::string quant;  // in capitals, for example "Q4_K_M" or "UD-Q4_K_XL"; empty if unknown
  std::vector<HubFile> parts;
  bool complete = true;  // whether all parts are present
  uint64_t bytes() const;
};

/// Returns the models of a repository, ordered by name. Skips image projectors (mmproj), importance matrices
/// (imatrix) and adapters.
std::vector<ModelFilesOnHub> models_in(std::span<const HubFile> files);

/// Returns the quantization in a file's name: the last word that is a quantization. Returns an empty text if
/// there is none.
std::string quant_of(std::string_view path);

/// A model's path, divided into the stem and the part number. The stem has no .gguf and no -00001-of-00003. A
/// model that is not split is part 1 of 1.
struct SplitName {
  std::string stem;
  int part = 1, n_parts = 1;
};
SplitName split_name(std::string_view path);

/// Returns the model with the reference's file or quantization. Ignores case; "Q4_K_XL" also matches
/// "UD-Q4_K_XL". If the reference names neither a file nor a quantization, returns the model with the first
/// quantization of preferred_quants() that the repository has, or else its only model. Throws PullError,
/// which lists the models, if no model or several models match, or if parts are missing.
ModelFilesOnHub chosen_model(const std::vector<ModelFilesOnHub>& models, const HubReference& reference);

/// Returns the order of preference if no file is named: first quantizations of about 4 bits, then of 5 and 6
/// bits, then of fewer than 4 bits, last of 8 bits or more.
std::span<const std::string_view> preferred_quants();

/// Returns a list such as "Q4_K_M (4.9 GB)" with an entry per model.
std::string models_text(std::span<const ModelFilesOnHub> models);

}  // namespace hearth
