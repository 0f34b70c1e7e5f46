// Sets of stacks of a pushdown automaton (automaton.h), each kept once and known by a number.
//
// A text that can be read in several ways has several stacks. Those with the same state on top are one entry, with the set of
// what may lie below it, and so on down: a graph-structured stack (Tomita 1985). So ambiguity multiplies nothing. Equal sets
// have equal numbers, and what follows from a set - where a byte leads, which tokens may come next - is found once.
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
  static constexpr Stack kContext = 1;   // the empty stack of a rule that is looked at alone: it has ended
  static constexpr Stack kFirstReal = 2;
  static constexpr Set kDead = 0;  // no stacks: the bytes are not allowed
  /// Pairs of a state and a set below it that one byte may lead to. A grammar comes near if a text may end at any of many
  /// depths (root ::= "(" root "x"? | "y"), or any number of its parts may begin at each byte.
  static constexpr size_t kMostStacks = 5000;
  /// What the stacks of one set may take; more are refused by copy(). 100,000 nested brackets take 14 MB.
  static constexpr size_t kMostBytes = size_t{24} << 20;
  /// Steps between two calls of begin_work(); they take about 20 ms.
  static constexpr size_t kMostWork = 200'000;

  explicit StackSets(const Automaton& automaton);
  StackSets(const StackSets&) = delete;
  StackSets& operator=(const StackSets&) = delete;

  /// Gives the next operations kMostWork steps together.
  void begin_work() { work_left_ = kMostWork; }
  /// Steps since begin_work().
  size_t work_done() const { return kMostWork - work_left_; }

  // Each throws ConstraintError if there are more than kMostStacks stacks, or too much work; then nothing is changed.
  /// Before any text.
  Set initial();
  /// Where a byte leads: kDead if it is not allowed.
  Set next(Set set, uint8_t byte) {
    const int32_t row = sets_[static_cast<size_t>(set)].row;
    const Set known = row < 0 ? kUnknown : next_[static_cast<size_t>(row) + automaton_.class_of_byte()[byte]];
    return known != kUnknown ? known : find_next(set, byte);
  }
  /// What may follow when the rule on top of a stack has ended: a set for what lies below it.
  Set after_end(Stack stack);
  /// One stack alone with this state, above a context that is not known.
  Set alone(int32_t state);

  /// Ascending. Besides kComplete and kContext, only stacks whose top has byte edges: they can go on by a byte.
  std::span<const Stack> stacks_of(Set set) const {
    const Entry& entry = sets_[static_cast<size_t>(set)];
    return std::span(members_).subspan(entry.first, entry.count);
  }
  bool has(Set set, Stack empty_stack) const;
  int32_t top(Stack stack) const { return stacks_[static_cast<size_t>(stack)].top; }

  /// A set of another StackSets of the same automaton. Throws ConstraintError if it takes more than kMostBytes.
  Set copy(const StackSets& from, Set set);

  /// About how much memory all of it takes.
  size_t bytes() const;

 private:
  static constexpr Set kUnknown = -1;
  struct StackEntry {
    int32_t top;
    Set below;
    uint32_t turn = 0;  // in which it was last met below a rule that ended
  };
  struct Entry {
    size_t first, count;       // in members_
    int32_t row = -1;          // where its part of next_ begins; -1 if no byte has been followed yet
    Set after_end = kUnknown;  // if it lies below: what may follow there
  };
  /// A state that is reached, while a set is being found.
  struct Item {
    int32_t state;
    std::vector<Set> below;      // sets of stacks that may lie below; the union counts
    std::vector<Stack> returns;  // further stacks that may
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

  // Finding a set: begin(), then reach() what a byte or an end leads to, then finish().
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
  // Of the set being found.
  uint32_t turn_ = 0;
  std::vector<Item> items_;
  size_t n_items_ = 0;                         // in use; the others keep their memory
  std::unordered_map<int32_t, size_t> index_;  // of items, by state
  std::vector<Set> ended_;                     // sets below rules that have ended, to be followed
  std::vector<Stack> found_;
  size_t n_reached_ = 0;
};

}  // namespace hearth
