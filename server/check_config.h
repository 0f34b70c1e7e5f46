// hearthd --check-config: makes all checks of a start except binding the port and loading the model, and
// describes what would be served. Deployments run it before they stop the running server.
//
// main calls it instead of serving. Runs on one thread.
#pragma once

#include <string>

#include "config/invocation.h"

namespace hearth {

/// Returns a few lines of text: address, models, chat template, keys with their roles (without the keys
/// themselves), warnings. Opens no port and loads no weights. Throws StartError if a start would fail.
std::string check_config(const Invocation& invocation);

}  // namespace hearth
