// Generates shell scripts that complete the options of our programs when the user presses Tab. Both programs
// call this when the user requests such a script. Pure functions.
#pragma once

#include <string>

#include "config/manual/described_program.h"

namespace hearth {

enum class Shell { kBash, kZsh, kFish };

/// Returns a script that completes options, subcommands, the words that options accept, files and folders.
/// The script needs only the shell itself and starts no program.
std::string render_completion(const DescribedProgram& program, Shell shell);

}  // namespace hearth
