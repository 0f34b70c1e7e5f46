// What a shell offers when Tab is pressed behind the name of one of our programs. Called by both programs when they are
// asked for it; pure.
#pragma once

#include <string>

#include "config/manual/described_program.h"

namespace hearth {

enum class Shell { kBash, kZsh, kFish };

/// A script for the shell: options, subcommands, the words that options take, files and folders. It needs nothing but the
/// shell itself, and starts no program.
std::string render_completion(const DescribedProgram& program, Shell shell);

}  // namespace hearth
