// Checks what a JSON schema's grammar matches, for the tests in this folder.
#pragma once

#include <string>
#include <vector>

#include "engine/constraint/schema/json_schema.h"
#include "tests/support/catch.h"
#include "tests/support/grammar_matcher.h"

namespace hearth::test {

/// Checks that the schema's grammar matches all `members` and none of the `others`.
inline void check_schema(const std::string& schema, const std::vector<std::string>& members,
                         const std::vector<std::string>& others) {
  const Grammar grammar = json_schema_grammar(schema);
  GrammarMatcher matcher(grammar);
  for (const std::string& text : members) {
    INFO(schema << " should match " << text);
    CHECK(matcher.matches(text));
  }
  for (const std::string& text : others) {
    INFO(schema << " should not match " << text);
    CHECK_FALSE(matcher.matches(text));
  }
}

/// Checks that the schema is refused at location `where`, with a message that contains `part`.
inline void check_refused(const std::string& schema, const std::string& where, const std::string& part) {
  INFO(schema.substr(0, 300));
  try {
    json_schema_grammar(schema);
    FAIL("not refused");
  } catch (const ConstraintError& error) {
    CHECK(error.where() == where);
    CHECK_THAT(error.what(), ContainsSubstring(part));
  }
}

}  // namespace hearth::test
