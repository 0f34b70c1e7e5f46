// Sets of stacks of a pushdown automaton (automaton.h), each stored once and identified by a number.
//
// A text that can be read in several ways has several stacks. Stacks with the same top state are one entry,
// with the set of possible stacks below it, and so on down: a graph-structured stack (Tomita 1985). So
// ambiguity does not multiply stacks. Equal sets have equal numbers, so their consequences - the set after a
// byte, the tokens that may come next - are computed once.
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
  using Stack = int32_t;  // a state with a set of stacks below it
  using Set = int32_t;
  static constexpr Stack kComplete = 0;  // the empty stack: the text is in the language
  static constexpr Stack kContext = 1;   // the empty stack of a rule examined alone: the rule has ended
  static constexpr Stack kFirstReal = 2;
  static constexpr Set kDead = 0;  // no stacks: the bytes are not allowed
  /// Limit for the pairs of a state and a set below it that one byte may lead to. A grammar comes near it if
  /// a text may end at any of many depths (root ::= "(" root "x"? | "y"), or if any number of its parts may
  /// begin at each byte.
  static constexpr size_t kMostStacks = 5000;
  /// Limit for the stacks of one set; copy() refuses more. 100,000 nested brackets take 14 MB.
  static constexpr size_t kMostBytes = size_t{24} << 20;
  /// Limit for the steps between two calls of begin_work(); they take about 20 ms.
  static constexpr size_t kMostWork = 200'000;

  explicit StackSets(const Automaton& automaton);
  StackSets(const StackSets&) = delete;
  StackSets& operator=(const StackSets&) = delete;

  /// Allows kMostWork steps for the following operations together.
  void begin_work() { work_left_ = kMostWork; }
  /// Steps since begin_work().
  size_t work_done() const { return kMostWork - work_left_; }

  // Each throws ConstraintError if there are more than kMostStacks stacks, or too much work; then nothing
  // changes.
  /// The set before any text.
  Set initial();
  /// The set after a byte; kDead if the byte is not allowed.
  Set next(Set set, uint8_t byte) {
    const int32_t row = sets_[static_cast<size_t>(set)].row;
    const Set known = row < 0 ? kUnknown : next_[static_cast<size_t>(row) + automaton_.class_of_byte()[byte]];
    return known != kUnknown ? known : find_next(set, byte);
  }
  /// The set that may follow when the rule on top of a stack has ended.
  Set after_end(Stack stack);
  /// One stack with this state above an unknown context.
  Set alone(int32_t state);

  /// Ascending. Besides kComplete and kContext, only stacks whose top state has byte edges.
  std::span<const Stack> stacks_of(Set set) const {
    const Entry& entry = sets_[static_cast<size_t>(set)];
    return std::span(members_).subspan(entry.first, entry.count);
  }
  bool has(Set set, Stack empty_stack) const;
  int32_t top(Stack stack) const { return stacks_[static_cast<size_t>(stack)].top; }

  /// Copies a set from another StackSets of the same automaton. Throws ConstraintError if it exceeds
  /// kMostBytes.
  Set copy(const StackSets& from, Set set);

  /// Approximate memory of this object.
  size_t bytes() const;

 private:
  static constexpr Set kUnknown = -1;
  struct StackEntry {
    int32_t top;
    Set below;
    uint32_t turn = 0;  // value of turn_ when it was last found below a rule that ended
  };
  struct Entry {
    size_t first, count;       // in members_
    int32_t row = -1;          // start of its part of next_; -1 if no byte has been followed yet
    Set after_end = kUnknown;  // the set after a rule ends with this set below it
  };
  /// A state that is reached while a set is computed.
  struct Item {
    int32_t state;
    std::vector<Set> below;      // sets of stacks that may be below; their union counts
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

  // To compute a set: begin(), then reach() everything that a byte or an end leads to, then finish().
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
  std::vector<Stack> members_;  // of all sets
  std::unordered_set<Set, HashMembers, EqualMembers> set_numbers_;
  std::vector<Set> next_;  // [rows, n_classes]
  size_t work_left_ = kMostWork;
  // For the set that is being computed.
  uint32_t turn_ = 0;
  std::vector<Item> items_;
  size_t n_items_ = 0;                         // in use; the others keep their memory
  std::unordered_map<int32_t, size_t> index_;  // of items, by state
  std::vector<Set> ended_;                     // sets below rules that have ended, still to be followed
  std::vector<Stack> found_;
  size_t n_reached_ = 0;
};

}  // namespace hearth
