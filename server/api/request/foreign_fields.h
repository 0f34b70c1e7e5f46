// Parameters that clients send and this server does not have.
//
// To pass over one that changes the answer would give a wrong answer with status 200, so it is refused unless its value asks
// for what happens anyway. Those that belong to accounts, billing and caches are checked and then left alone. docs/api.md lists
// both. Called by the request parsers on the HTTP thread.
#pragma once

#include "server/api/json.h"

namespace hearth {

/// Throws RequestError. chat: the request is a chat, else a completion.
void check_foreign_fields(const RequestFields& fields, bool chat);

}  // namespace hearth
