// Where Hearth keeps what it has found out once: of this machine, and of models.
//
// Everything there can be deleted: it is found out again. The files are each read with distrust and written
// in one piece (engine/model/whole_file.h), by any number of programs at a time.
#pragma once

#include <filesystem>
#include <string>
#include <variant>

#include "config/environment.h"

namespace hearth {

/// $XDG_CACHE_HOME/hearth, or ~/.cache/hearth, made if it was not there; it may be one that can only be read.
/// Or the reason why there is none, as a phrase: "HOME is not set". Relative paths count as not set, as the
/// XDG Base Directory Specification has it.
std::variant<std::filesystem::path, std::string> cache_folder(const Environment& environment);

}  // namespace hearth
