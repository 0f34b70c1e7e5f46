// hearthd pull, list, rm and show: from a command line that was read to the exit code. Called by main, before any thread.
#pragma once

#include "config/command_invocation.h"
#include "config/environment.h"

namespace hearth {

/// Prints results on the standard output, progress and remarks on standard error. Returns the exit code: 0 done, 128 + N
/// ended by signal N. Throws ReferenceError or ConfigError for what was asked wrongly, other exceptions for what failed.
int run_model_command(const CommandInvocation& command, const Environment& environment);

}  // namespace hearth
