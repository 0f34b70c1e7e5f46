// Follows stacks over bytes, calls and the ends of rules: see the header.
#include "engine/constraint/mask/stack_sets.h"

#include <algorithm>
#include <functional>
#include <string>

namespace hearth {
namespace {

[[noreturn]] void refuse_ambiguity() {
  throw ConstraintError(
      "The grammar is too ambiguous: the text so far, or what may follow it, can be read in too many ways to "
      "go on; make "
      "its alternatives begin differently.",
      "");
}

}  // namespace

StackSets::StackSets(const Automaton& automaton)
    : automaton_(automaton),
      stacks_{{-1, kDead}, {-1, kDead}},
      set_numbers_(16, HashMembers{this}, EqualMembers{this}) {
  intern_set({});
}

StackSets::Set StackSets::initial() {
  const Set nothing_below = set_of_one(kComplete);
  begin();
  if (automaton_.matches_empty()) found_.push_back(kComplete);
  reach(automaton_.start(), nothing_below);
  return finish();
}

StackSets::Set StackSets::alone(int32_t state) { return set_of_one(intern(state, set_of_one(kContext))); }

StackSets::Set StackSets::after_end(Stack stack) {
  const auto below = static_cast<size_t>(stacks_[static_cast<size_t>(stack)].below);
  if (sets_[below].after_end == kUnknown) {
    begin();
    ended_.push_back(static_cast<Set>(below));
    const Set set = finish();
    sets_[below].after_end = set;
  }
  return sets_[below].after_end;
}

StackSets::Set StackSets::find_next(Set set, uint8_t byte) {
  begin();
  for (const Stack stack : stacks_of(set)) {
    if (stack < kFirstReal) continue;
    const auto [state, below, turn] = stacks_[static_cast<size_t>(stack)];
    const int32_t to = automaton_.next(state, byte);
    if (to >= 0) reach(to, below);
  }
  const Set to = finish();
  Entry& entry = sets_[static_cast<size_t>(set)];
  if (entry.row < 0) {
    entry.row = static_cast<int32_t>(next_.size());
    next_.resize(next_.size() + automaton_.n_classes(), kUnknown);
  }
  next_[static_cast<size_t>(entry.row) + automaton_.class_of_byte()[byte]] = to;
  return to;
}

void StackSets::begin() {
  ++turn_;
  n_items_ = 0;
  index_.clear();
  ended_.clear();
  found_.clear();
  n_reached_ = 0;
}

StackSets::Item& StackSets::item_of(int32_t state) {
  const auto [at, is_new] = index_.try_emplace(state, n_items_);
  if (!is_new) return items_[at->second];
  if (n_items_ == items_.size()) items_.emplace_back();
  Item& item = items_[n_items_++];
  item.state = state;
  item.below.clear();
  item.returns.clear();
  return item;
}

void StackSets::reach(int32_t state, Set below) {
  Item& item = item_of(state);
  take_work(1 + item.below.size() / 8);
  if (std::find(item.below.begin(), item.below.end(), below) != item.below.end()) return;
  item.below.push_back(below);
  if (++n_reached_ > kMostStacks) refuse_ambiguity();
  if (automaton_.is_accepting(state)) ended_.push_back(below);
}

/// Continues with the stacks below a rule that has ended.
void StackSets::end_rules(Set below) {
  const std::span<const Stack> stacks = stacks_of(below);
  take_work(1 + stacks.size() / 4);
  for (const Stack stack : stacks) {
    auto& [state, its_below, turn] = stacks_[static_cast<size_t>(stack)];
    if (std::exchange(turn, turn_) == turn_) continue;
    if (stack < kFirstReal)
      found_.push_back(stack);
    else
      reach(state, its_below);
  }
}

StackSets::Set StackSets::finish() {
  // 1. End rules. When a rule ends, the rules below it may end as a consequence.
  while (!ended_.empty()) {
    const Set below = ended_.back();
    ended_.pop_back();
    end_rules(below);
  }
  // 2. Follow calls. States are processed in the order of their rank, so every rule comes after all its
  //    callers. When a rule is processed, all stacks that can be below it are therefore known.
  using Turn = std::pair<int32_t, size_t>;  // the rank of an item's state, then the item's index
  std::vector<Turn> open;
  const auto add_turns = [&](size_t from) {
    for (size_t i = from; i < n_items_; ++i) {
      open.emplace_back(automaton_.call_rank(items_[i].state), i);
      std::push_heap(open.begin(), open.end(), std::greater<>());
    }
  };
  add_turns(0);
  while (!open.empty()) {
    std::pop_heap(open.begin(), open.end(), std::greater<>());
    const size_t index = open.back().second;
    open.pop_back();
    const Set below = join(items_[index]);
    const int32_t state = items_[index].state;
    if (!automaton_.bytes_of(state).empty()) found_.push_back(intern(state, below));
    const size_t n_before = n_items_;
    follow_calls(state, below);
    add_turns(n_before);
  }
  std::sort(found_.begin(), found_.end());
  found_.erase(std::unique(found_.begin(), found_.end()), found_.end());
  return intern_set(found_);
}

void StackSets::follow_calls(int32_t state, Set below) {
  for (const Dfa::CallEdge& call : automaton_.calls_of(state)) {
    take_work(1);
    if (++n_reached_ > kMostStacks) refuse_ambiguity();
    // If nothing can follow the call in the caller, the caller ends when the callee ends, so nothing is
    // pushed. Therefore a list whose rule calls itself at its end does not make the stack grow.
    const bool is_last = automaton_.is_final(call.to);
    const Stack back = is_last ? kComplete : intern(call.to, below);
    Item& callee = item_of(call.rule);
    if (is_last)
      callee.below.push_back(below);
    else
      callee.returns.push_back(back);
  }
}

/// Returns the union of all sets of stacks that can be below an item.
StackSets::Set StackSets::join(Item& item) {
  if (item.returns.empty() && item.below.size() == 1) return item.below[0];
  std::vector<Stack> all = std::move(item.returns);
  for (const Set below : item.below) {
    const std::span<const Stack> stacks = stacks_of(below);
    take_work(stacks.size());
    all.insert(all.end(), stacks.begin(), stacks.end());
  }
  std::sort(all.begin(), all.end());
  all.erase(std::unique(all.begin(), all.end()), all.end());
  const Set set = intern_set(all);
  item.returns = std::move(all);  // keeps its memory
  return set;
}

void StackSets::take_work(size_t steps) {
  if (steps > work_left_) refuse_ambiguity();
  work_left_ -= steps;
}

StackSets::Stack StackSets::intern(int32_t top, Set below) {
  const uint64_t key = (static_cast<uint64_t>(top) << 32) | static_cast<uint32_t>(below);
  const auto [at, is_new] = stack_numbers_.try_emplace(key, static_cast<Stack>(stacks_.size()));
  if (is_new) stacks_.push_back({top, below});
  return at->second;
}

/// Returns the set with these members, which must be in ascending order. The span must not point into
/// members_, because this function changes members_.
StackSets::Set StackSets::intern_set(std::span<const Stack> members) {
  // First append the new set. Remove it again if an equal set exists.
  sets_.push_back({members_.size(), members.size()});
  members_.insert(members_.end(), members.begin(), members.end());
  const auto [at, is_new] = set_numbers_.insert(static_cast<Set>(sets_.size()) - 1);
  if (!is_new) {
    members_.resize(sets_.back().first);
    sets_.pop_back();
  }
  return *at;
}

bool StackSets::has(Set set, Stack empty_stack) const {
  const std::span<const Stack> stacks = stacks_of(set);
  return std::binary_search(stacks.begin(), stacks.end(), empty_stack);
}

StackSets::Set StackSets::copy(const StackSets& from, Set set) {
  const size_t bytes_before = bytes();
  std::unordered_map<Set, Set> copies;
  std::vector<Set> path{set};  // sets to copy; a set waits here until the sets below its stacks are copied
  while (!path.empty()) {
    const Set at = path.back();
    const size_t n_before = path.size();
    std::vector<Stack> members;
    for (const Stack stack : from.stacks_of(at)) {
      if (stack < kFirstReal) {
        members.push_back(stack);
        continue;
      }
      const auto [state, below, turn] = from.stacks_[static_cast<size_t>(stack)];
      if (const auto copied = copies.find(below); copied != copies.end())
        members.push_back(intern(state, copied->second));
      else
        path.push_back(below);
    }
    if (path.size() > n_before) continue;
    path.pop_back();
    std::sort(members.begin(), members.end());
    copies.try_emplace(at, intern_set(members));
    if (bytes() - bytes_before > kMostBytes) refuse_ambiguity();
  }
  return copies.at(set);
}

size_t StackSets::bytes() const {
  constexpr size_t kStack = sizeof(StackEntry) + 40;  // including its entry in stack_numbers_
  constexpr size_t kSet = sizeof(Entry) + 32;
  return stacks_.size() * kStack + sets_.size() * kSet + members_.size() * sizeof(Stack) +
         next_.size() * sizeof(Set);
}

size_t StackSets::HashMembers::operator()(Set set) const {
  uint64_t hash = 0xCBF29CE484222325;
  for (const Stack stack : sets->stacks_of(set)) hash = (hash ^ static_cast<uint32_t>(stack)) * 0x100000001B3;
  return hash ^ (hash >> 29);
}

bool StackSets::EqualMembers::operator()(Set a, Set b) const {
  const std::span<const Stack> x = sets->stacks_of(a), y = sets->stacks_of(b);
  return std::equal(x.begin(), x.end(), y.begin(), y.end());
}

}  // namespace hearth
