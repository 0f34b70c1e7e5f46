// hearthd run: a chat with a model in the terminal.
//
// With a model, the command starts a server of its own, and pulls the model if it is not here. Without one,
// it uses a running server. main calls it before it starts any thread.
#pragma once

#include "config/command_invocation.h"
#include "config/environment.h"

namespace hearth {

/// Returns the exit code: 0, 1 if the only message got no answer, or 128 + N after signal N. Throws
/// std::runtime_error, ReferenceError or ConfigError with a sentence.
int run_chat(const CommandInvocation& command, const Environment& environment);

}  // namespace hearth
