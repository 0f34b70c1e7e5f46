// Finds the file of a model that the user names: a path, or a name, hf: reference or URL of a pulled model.
//
// Reads the folder of pulled models, and uses no network.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "config/environment.h"
#include "config/options.h"

namespace hearth {

/// Returns the file of a name, hf: reference or URL if it is in the store. Does not check whether the hub has
/// a newer version.
std::optional<std::filesystem::path> model_in_store(const std::string& text, const Options& options,
                                                    const Environment& environment);

/// Like model_in_store(), but a path is returned unchanged, and a folder or a missing model throws
/// ReferenceError with advice. An empty text is returned unchanged.
std::filesystem::path local_model(const std::string& text, const Options& options,
                                  const Environment& environment);

/// Whether the text names a model that is not here and can be pulled.
bool can_be_pulled(const std::string& text, const Options& options, const Environment& environment);

}  // namespace hearth
