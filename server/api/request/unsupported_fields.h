// Parameters that clients send and this server does not have.
//
// To pass over one that changes the answer would give a wrong answer with status 200, so it is refused unless its value asks
// for what happens anyway. Those that belong to accounts, billing and caches are checked and then left alone; docs/api.md lists
// these. Called by the request parsers on the HTTP thread.
#pragma once

#include <span>

#include "server/json/json.h"

namespace hearth {

/// A parameter whose loss would change the answer.
struct RefusedField {
  const char* name;
  /// A JSON array of the values that ask for nothing, besides null and empty texts, arrays and objects.
  const char* neutral;
  /// Why it is refused, or what to send instead: the end of the error's sentence.
  const char* advice;
};

/// Throws RequestError for the first of these fields that asks for something.
void refuse_fields(const RequestFields& fields, std::span<const RefusedField> refused);

/// Throws RequestError. chat: the request is a chat, else a completion.
void check_foreign_fields(const RequestFields& fields, bool chat);

}  // namespace hearth
