// The folder in which Hearth keeps its measurements of this machine and of models.
//
// Everything in it can be deleted; Hearth then measures it again. Files are checked when they are read and
// written in one piece (kernels/base/whole_file.h), so any number of programs can use them at a time.
#pragma once

#include <filesystem>
#include <string>
#include <variant>

#include "config/environment.h"

namespace hearth {

/// Returns $XDG_CACHE_HOME/hearth or ~/.cache/hearth, and creates it if necessary; it may be read-only. If
/// there is none, returns the reason as a phrase: "HOME is not set". Relative paths count as not set, as the
/// XDG Base Directory Specification requires.
std::variant<std::filesystem::path, std::string> cache_folder(const Environment& environment);

}  // namespace hearth
