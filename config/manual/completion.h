// Shell scripts that complete the options of our programs when the user presses Tab. Both programs call this
// when they are asked for such a script; pure.
#pragma once

#include <string>

#include "config/manual/described_program.h"

namespace hearth {

enum class Shell { kBash, kZsh, kFish };

/// A script that completes options, subcommands, the words that options take, files and folders. It needs
/// nothing but the shell itself and starts no program.
std::string render_completion(const DescribedProgram& program, Shell shell);

}  // namespace hearth
