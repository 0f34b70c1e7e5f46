// Runs the commands hearthd pull, list, rm, show and connect. main calls this before it starts any thread.
#pragma once

#include "config/command_invocation.h"
#include "config/environment.h"

namespace hearth {

/// Prints results on standard output, and progress and warnings on standard error. Returns the exit code: 0
/// on success, 128 + N if signal N ended the command. Throws ReferenceError or ConfigError if the command is
/// invalid. Throws other exceptions if the command fails.
int run_model_command(const CommandInvocation& command, const Environment& environment);

}  // namespace hearth
