// hearthd --check-config: checks everything that a start checks before it binds the port and loads, and
// describes what would be served. Deployments use it to find mistakes before they stop the running server.
//
// Called by main instead of serving; one thread.
#pragma once

#include <string>

#include "config/invocation.h"

namespace hearth {

/// Returns a few lines for people: address, models, chat template, keys and their roles (never a key),
/// warnings. Opens no port and loads no weights. Throws StartError for whatever a start would refuse.
std::string check_config(const Invocation& invocation);

}  // namespace hearth
