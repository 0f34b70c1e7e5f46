// hearthd --check-config: looks at everything a start would look at before it binds and loads, and says what would be
// served. For deployments, which want to know of a mistake before they stop what is running.
//
// Called by main instead of serving; one thread.
#pragma once

#include <string>

#include "config/invocation.h"

namespace hearth {

/// A few lines for people: address, models, chat template, keys and their roles (never a key), warnings. Opens no port,
/// loads no weights. Throws StartError: what a start would refuse.
std::string check_config(const Invocation& invocation);

}  // namespace hearth
