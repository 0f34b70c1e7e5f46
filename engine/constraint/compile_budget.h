// Limits for compiling one grammar. Grammars come from clients, and a short one can describe an automaton of
// any size, so states and work are counted while the automaton is built.
#pragma once

#include <cstddef>
#include <string>

#include "engine/constraint/constraint_error.h"

namespace hearth {

class CompileBudget {
 public:
  /// Maximum number of states of a grammar. A state takes about 100 bytes. A JSON string of at most 10,000
  /// characters takes 130,000 states.
  static constexpr size_t kMostStates = 150'000;
  /// Maximum number of steps to build a grammar's automaton. A step takes 10 to 50 ns.
  static constexpr size_t kMostWork = 8'000'000;

  CompileBudget() = default;
  CompileBudget(size_t most_states, size_t most_work) : states_left_(most_states), work_left_(most_work) {}

  /// Sets the rule that error messages name. `rule_name` must exist until the next call of enter().
  void enter(const std::string& rule_name) { rule_name_ = &rule_name; }

  /// take_state() and take_work() throw ConstraintError when the grammar has used up its budget.
  void take_state() {
    if (states_left_-- == 0) refuse("states");
  }
  void take_work(size_t steps = 1) {
    if (steps > work_left_) refuse("steps to build");
    work_left_ -= steps;
  }

 private:
  [[noreturn]] void refuse(const char* of_what) const {
    throw ConstraintError("The grammar is too large: its automaton takes too many " + std::string(of_what) +
                              " at the rule \"" + (rule_name_ != nullptr ? *rule_name_ : "root") +
                              "\"; shorten its repeats, or use fewer or simpler alternatives.",
                          "");
  }

  size_t states_left_ = kMostStates;
  size_t work_left_ = kMostWork;
  const std::string* rule_name_ = nullptr;
};

}  // namespace hearth
