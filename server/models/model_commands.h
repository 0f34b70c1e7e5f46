// Runs hearthd pull, list, rm and show from a parsed command line. Called by main, before any thread.
#pragma once

#include "config/command_invocation.h"
#include "config/environment.h"

namespace hearth {

/// Prints results on standard output, progress and remarks on standard error. Returns the exit code: 0 if
/// done, 128 + N if ended by signal N. Throws ReferenceError or ConfigError for a wrong request, other
/// exceptions for failures.
int run_model_command(const CommandInvocation& command, const Environment& environment);

}  // namespace hearth
