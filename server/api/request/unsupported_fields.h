// Handles parameters that clients send but this server does not support.
//
// Ignoring a parameter that changes the answer would give the client a wrong answer with status 200. The
// server therefore refuses such a parameter, unless its value requests the default behavior. Parameters for
// accounts, billing and caches have no effect; docs/api.md lists them. Called on the HTTP thread.
#pragma once

#include <span>

#include "server/json/json.h"

namespace hearth {

/// A parameter that would change the answer and is therefore refused.
struct RefusedField {
  const char* name;
  /// A JSON array of values that are accepted because they have no effect. Null, "", [] and {} are always
  /// accepted.
  const char* neutral;
  /// The end of the error message: the reason, or a replacement for the parameter.
  const char* advice;
};

/// Throws RequestError for the first field whose value would have an effect.
void refuse_fields(const RequestFields& fields, std::span<const RefusedField> refused);

/// Checks all unsupported parameters of a completion (chat: false) or a chat (chat: true). Throws
/// RequestError.
void check_foreign_fields(const RequestFields& fields, bool chat);

}  // namespace hearth
