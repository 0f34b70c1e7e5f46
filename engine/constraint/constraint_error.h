// What is thrown for grammars, schemas and expressions that cannot be compiled or followed.
#pragma once

#include <stdexcept>
#include <string>
#include <utility>

namespace hearth {

/// What cannot be enforced or is not well-formed. what(): one sentence for the user. where(): the place in what the user
/// wrote ("#/properties/age", "line 3, column 7", "position 12"), or empty.
class ConstraintError : public std::runtime_error {
 public:
  ConstraintError(const std::string& sentence, std::string where)
      : std::runtime_error(sentence), where_(std::move(where)) {}
  const std::string& where() const { return where_; }

 private:
  std::string where_;
};

}  // namespace hearth
