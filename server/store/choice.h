// Groups a repository's files into models, reads their quantizations, and finds the model that a user means.
// Pure functions; any thread.
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
  std::string quant;  // "Q4_K_M", "UD-Q4_K_XL", in capitals; empty if not in the name
  std::vector<HubFile> parts;
  bool complete = true;  // whether all parts are present
  uint64_t bytes() const;
};

/// Returns the models of a repository, ordered by name. Skips image projectors (mmproj), importance matrices
/// (imatrix) and adapters.
std::vector<ModelFilesOnHub> models_in(std::span<const HubFile> files);

/// Returns the quantization in a file's name: the last word that is a quantization, or an empty text.
std::string quant_of(std::string_view path);

/// The stem is the path without .gguf and without the -00001-of-00003 of a split model. A model that is not
/// split is part 1 of 1.
struct SplitName {
  std::string stem;
  int part = 1, n_parts = 1;
};
SplitName split_name(std::string_view path);

/// Returns the model that the reference names by its file or by its quantization (in upper or lower case;
/// "Q4_K_XL" also matches "UD-Q4_K_XL"). If the reference gives neither, returns the model with the first of
/// preferred_quants() that the repository has. If it has none of them, returns its only model. Throws
/// PullError, which lists the models, if no model or more than one matches, or if parts are missing.
ModelFilesOnHub chosen_model(const std::vector<ModelFilesOnHub>& models, const HubReference& reference);

/// The quantizations in the order in which they are preferred if no file is named. First come those of about
/// 4 bits, then those of 5 and 6 bits, then those of fewer than 4 bits, and last those of 8 bits or more.
std::span<const std::string_view> preferred_quants();

/// Returns a list such as "Q4_K_M (4.9 GB)", with one entry per model.
std::string models_text(std::span<const ModelFilesOnHub> models);

}  // namespace hearth
