// The answer formats whose cost `bench --schema` measures: formats that requests commonly ask for.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "engine/constraint/grammar/grammar.h"

namespace hearth {

struct ConstraintCase {
  std::string name;
  enum class Kind { kFree, kJsonObject, kJsonSchema, kRegex } kind = Kind::kFree;
  std::string text;  // the schema or the regular expression

  bool is_constrained() const { return kind != Kind::kFree; }
  /// Throws ConstraintError. REQUIRES: is_constrained().
  Grammar grammar() const;
};

/// The built-in cases. The first case is free text, the baseline for the others.
std::vector<ConstraintCase> built_in_cases();

/// name: the case's name in the report. schema_json is checked when it is compiled.
ConstraintCase schema_case(std::string name, std::string schema_json);

}  // namespace hearth
