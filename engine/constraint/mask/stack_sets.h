// Sets of stacks of a pushdown automaton (automaton.h). Each set is stored once and identified by a number.
//
// A text that can be read in several ways has several stacks. A stack is stored as its top state and the set
// of stacks that can be below it. At every level, stacks with equal top states share one entry. This
// graph-structured stack (Tomita 1985) keeps ambiguity from multiplying stacks. Equal sets have equal
// numbers, so the set after a byte and the tokens that may come next are computed only once for each set.
//
// One thread at a time (mask_cache.h holds a mutex). The automaton must outlive it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "engine/constraint/automaton/automaton.h"

namespace hearth {

class StackSets {
 public:
  using Stack = int32_t;  // a state, and the set of stacks that can be below it
  using Set = int32_t;
  static constexpr Stack kComplete = 0;  // the empty stack after the root has ended: the text is complete
  static constexpr Stack kContext = 1;   // the empty stack after the end of a rule that is examined alone
  static constexpr Stack kFirstReal = 2;
  static constexpr Set kDead = 0;  // no stacks: the bytes are not allowed
  /// Maximum number of stacks to which one byte may lead. Each pair of a top state and a set below it is
  /// counted as one stack. A grammar comes near this limit if a text may end at any of many depths (root ::=
  /// "(" root "x"? | "y"), or if any number of its parts may begin at each byte.
  static constexpr size_t kMostStacks = 5000;
  /// Maximum bytes for the stacks of one set; copy() refuses a larger set. 100,000 nested brackets take 14
  /// MB.
  static constexpr size_t kMostBytes = size_t{24} << 20;
  /// Maximum number of steps between two calls of begin_work(). That many steps take about 20 ms.
  static constexpr size_t kMostWork = 200'000;

  explicit StackSets(const Automaton& automaton);
  StackSets(const StackSets&) = delete;
  StackSets& operator=(const StackSets&) = delete;

  /// Starts a new count of steps. The operations that follow may take kMostWork steps in total.
  void begin_work() { work_left_ = kMostWork; }
  /// Steps since begin_work().
  size_t work_done() const { return kMostWork - work_left_; }

  // These functions throw ConstraintError if there are more than kMostStacks stacks or if more than kMostWork
  // steps were taken. Sets that exist already stay unchanged.
  Set initial();
  /// Returns the set after a byte; kDead if the byte is not allowed.
  Set next(Set set, uint8_t byte) {
    const int32_t row = sets_[static_cast<size_t>(set)].row;
    const Set known = row < 0 ? kUnknown : next_[static_cast<size_t>(row) + automaton_.class_of_byte()[byte]];
    return known != kUnknown ? known : find_next(set, byte);
  }
  /// Returns the set of stacks that can follow `stack` when the rule on top of `stack` has ended.
  Set after_end(Stack stack);
  /// Returns a set with one stack: this state, with an unknown stack below it (kContext).
  Set alone(int32_t state);

  /// Returns the stacks of a set in ascending order. They are kComplete, kContext, and stacks whose top state
  /// has byte edges.
  std::span<const Stack> stacks_of(Set set) const {
    const Entry& entry = sets_[static_cast<size_t>(set)];
    return std::span(members_).subspan(entry.first, entry.count);
  }
  bool has(Set set, Stack empty_stack) const;
  int32_t top(Stack stack) const { return stacks_[static_cast<size_t>(stack)].top; }

  /// Copies a set from another StackSets of the same automaton. Throws ConstraintError if the copy exceeds
  /// kMostBytes.
  Set copy(const StackSets& from, Set set);

  /// Approximate memory of this object.
  size_t bytes() const;

 private:
  static constexpr Set kUnknown = -1;
  struct StackEntry {
    int32_t top;
    Set below;
    uint32_t turn = 0;  // value of turn_ when end_rules() last visited this stack
  };
  struct Entry {
    size_t first, count;       // range in members_
    int32_t row = -1;          // index of this set's row in next_; -1 until a byte is followed
    Set after_end = kUnknown;  // the set that follows when the rule above this set ends
  };
  /// A state that was reached in the computation of a set.
  struct Item {
    int32_t state;
    std::vector<Set> below;      // sets of stacks that can be below the state; join() unites them
    std::vector<Stack> returns;  // further stacks that may be below
  };
  struct HashMembers {
    const StackSets* sets;
    size_t operator()(Set set) const;
  };
  struct EqualMembers {
    const StackSets* sets;
    bool operator()(Set a, Set b) const;
  };

  Set find_next(Set set, uint8_t byte);
  Stack intern(int32_t top, Set below);
  Set intern_set(std::span<const Stack> members);
  Set set_of_one(Stack stack) { return intern_set({&stack, 1}); }

  // A set is computed in three steps: begin(), then reach() for each state that a byte or an end leads to,
  // then finish().
  void begin();
  void reach(int32_t state, Set below);
  void end_rules(Set below);
  Set finish();
  Item& item_of(int32_t state);
  void follow_calls(int32_t state, Set below);
  Set join(Item& item);
  void take_work(size_t steps);

  const Automaton& automaton_;
  std::vector<StackEntry> stacks_;
  std::unordered_map<uint64_t, Stack> stack_numbers_;  // by top and below
  std::vector<Entry> sets_;
  std::vector<Stack> members_;  // members of all sets
  std::unordered_set<Set, HashMembers, EqualMembers> set_numbers_;
  std::vector<Set> next_;  // [rows, n_classes]
  size_t work_left_ = kMostWork;
  // Scratch memory for the set that is being computed.
  uint32_t turn_ = 0;
  std::vector<Item> items_;
  size_t n_items_ = 0;                         // items in use; the other items keep their memory
  std::unordered_map<int32_t, size_t> index_;  // index in items_, by state
  std::vector<Set> ended_;                     // sets below rules that have ended; finish() follows them
  std::vector<Stack> found_;
  size_t n_reached_ = 0;
};

}  // namespace hearth
