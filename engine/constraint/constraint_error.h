// The exception for grammars, schemas and regular expressions that cannot be compiled or followed.
#pragma once

#include <stdexcept>
#include <string>
#include <utility>

namespace hearth {

/// Input that is malformed or cannot be enforced. what(): one sentence for the user. where(): where in the
/// user's input the error is ("#/properties/age", "line 3, column 7", "position 12"), or empty.
class ConstraintError : public std::runtime_error {
 public:
  ConstraintError(const std::string& sentence, std::string where)
      : std::runtime_error(sentence), where_(std::move(where)) {}
  const std::string& where() const { return where_; }

 private:
  std::string where_;
};

}  // namespace hearth
