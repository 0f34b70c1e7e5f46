// hearthd connect: prints the configuration with which a coding agent uses a running server.
//
// main calls it through run_model_command() before it starts any thread. The configuration goes to the
// standard output, so that it can be redirected into the agent's file, and the steps go to the standard
// error. API keys are never printed: the configurations name the environment variable HEARTH_API_KEY.
#pragma once

#include <string>

#include "config/command_invocation.h"
#include "config/environment.h"
#include "server/models/running_server.h"

namespace hearth {

struct ClientSetup {
  std::string text;   // what to paste or to redirect
  std::string steps;  // sentences: where the text belongs, and the command to run next
};

/// client: claude-code, codex or opencode. Throws ConfigError for another name.
ClientSetup client_setup(const std::string& client, const RunningServer& server);

/// Asks the server for its model, and prints the configuration and the steps. Returns the exit code 0. Throws
/// ConfigError for wrong arguments, and std::runtime_error if no server answers or if it serves no model that
/// generates.
int connect_client(const CommandInvocation& command, const Environment& environment);

}  // namespace hearth
