// Handles parameters that clients send and this server does not support.
//
// If the server ignored a parameter that changes the answer, the client would get a wrong answer with status
// 200. The server therefore refuses such a parameter, unless its value requests the default behavior.
// Parameters for accounts, billing and caches are checked and then ignored; docs/api.md lists them. Called by
// the request parsers on the HTTP thread.
#pragma once

#include <span>

#include "server/json/json.h"

namespace hearth {

/// A parameter that would change the answer.
struct RefusedField {
  const char* name;
  /// A JSON array of values that have no effect. Null, "", [] and {} never have an effect and need not be
  /// listed.
  const char* neutral;
  /// The end of the error message: why the parameter is refused, or what to send instead.
  const char* advice;
};

/// Throws RequestError for the first of these fields whose value would have an effect.
void refuse_fields(const RequestFields& fields, std::span<const RefusedField> refused);

/// Checks the unsupported fields. Throws RequestError. chat: true for a chat request, false for a completion.
void check_foreign_fields(const RequestFields& fields, bool chat);

}  // namespace hearth
