// Finds the folder in which Hearth keeps its measurements of this machine and of models.
//
// All files in the folder may be deleted; Hearth then measures again. Files are checked when they are read,
// and written in one piece (kernels/base/whole_file.h), so several programs can use them at the same time.
#pragma once

#include <filesystem>
#include <string>
#include <variant>

#include "config/environment.h"

namespace hearth {

/// Returns $XDG_CACHE_HOME/hearth or ~/.cache/hearth, and creates this folder if necessary. The folder may be
/// read-only. If neither path can be used, returns the reason as a phrase: "HOME is not set". A variable with
/// a relative path counts as not set, as the XDG Base Directory Specification requires.
std::variant<std::filesystem::path, std::string> cache_folder(const Environment& environment);

}  // namespace hearth
