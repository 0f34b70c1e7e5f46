// Computes and caches masks: the tokens that may come next, for each set of stacks (stack_sets.h) that
// occurs.
//
// For most tokens, the rule on top of a stack alone decides whether the token is allowed, because the token
// ends before the rule does. These tokens are found once for each view of a state (automaton.h), with one
// walk through the vocabulary, which takes about a millisecond inside a JSON string. At a few positions, the
// rule can end within a token. Only at these positions, the rest of the token is checked against the stack
// below. The idea is XGrammar's (Dong et al. 2024, arXiv:2411.15100). Views cover only short tokens
// (TokenTrie::kShortBytes), so longer tokens are checked against the whole set of stacks.
//
// Thread-safe: each call holds the cache's mutex. Automaton and trie must outlive it.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "engine/constraint/automaton/automaton.h"
#include "engine/constraint/mask/place.h"
#include "engine/constraint/mask/stack_sets.h"
#include "engine/constraint/mask/token_trie.h"
#include "engine/constraint/token_mask.h"
#include "kernels/base/mutex.h"

namespace hearth {

class MaskCache {
 public:
  using Set = StackSets::Set;
  using Place = ConstraintPlace;
  /// A full cache is replaced by an empty one; see Constraint.
  static constexpr size_t kMostBytes = size_t{64} << 20;
  /// Maximum number of bytes that forced() returns. A short grammar can force a text of any length.
  static constexpr size_t kMostForcedBytes = 4096;

  MaskCache(const Automaton& automaton, const TokenTrie& trie);

  // These functions throw ConstraintError if the text can be read in too many ways (StackSets).

  /// Returns the place before any text.
  Place initial();
  /// Returns the place after further bytes. place.set is kDead if the bytes are not allowed.
  Place after(Set set, std::string_view bytes);
  std::shared_ptr<const TokenMask> mask(Set set);
  std::string forced(Set set);
  /// Computes masks in advance for about 10 to 20 ms, in the order of the states' numbers, beginning with the
  /// root's start state.
  void warm();

  bool is_full();
  /// Copies a set from another cache of the same automaton. Throws ConstraintError if the set's stacks are
  /// too large.
  Set copy(MaskCache& from, Set set);

 private:
  /// For one view of a state: the tokens that its rule allows without regard to the stack below, and the trie
  /// nodes at which the rule may end.
  struct ViewMask {
    TokenMask mask;               // used if there are many tokens
    std::vector<int32_t> tokens;  // used if there are few tokens
    /// the inner nodes of the trie of short tokens whose bytes may complete the rule
    std::vector<uint32_t> ends;
  };

  Place place(Set set) HEARTH_REQUIRES(mutex_);
  const ViewMask& view_mask(int32_t state) HEARTH_REQUIRES(mutex_);
  std::unique_ptr<const ViewMask> find_view_mask(int32_t state) HEARTH_REQUIRES(mutex_);
  void add_short_tokens(Set set, TokenMask& mask) HEARTH_REQUIRES(mutex_);
  void add_separately(const std::vector<StackSets::Stack>& stacks, TokenMask& mask) HEARTH_REQUIRES(mutex_);
  int only_byte(Set set) HEARTH_REQUIRES(mutex_);
  /// Calls visit(node, set) for each trie node in [first, last) whose bytes are allowed; `set` is the set of
  /// stacks after these bytes. from: the set at the parent of node `first`.
  template <typename Visit>
  void walk(const ByteTrie& trie, uint32_t first, uint32_t last, Set from, Visit visit)
      HEARTH_REQUIRES(mutex_);
  /// Sets the bits of the tokens at all nodes of [first, last) that walk() reaches.
  void allow_reached(const ByteTrie& trie, uint32_t first, uint32_t last, Set from, TokenMask& mask)
      HEARTH_REQUIRES(mutex_);
  size_t bytes() const HEARTH_REQUIRES(mutex_);

  const Automaton& automaton_;
  const TokenTrie& trie_;
  Mutex mutex_;
  StackSets sets_ HEARTH_GUARDED_BY(mutex_);
  std::vector<std::unique_ptr<const ViewMask>> views_
      HEARTH_GUARDED_BY(mutex_);  // [n_views], null: not found yet
  std::vector<std::shared_ptr<const TokenMask>> set_masks_
      HEARTH_GUARDED_BY(mutex_);                     // by set, null: not found yet
  size_t mask_bytes_ HEARTH_GUARDED_BY(mutex_) = 0;  // bytes of views_ and set_masks_
  size_t n_visited_ HEARTH_GUARDED_BY(mutex_) = 0;   // trie nodes
  std::vector<Set> set_at_depth_ HEARTH_GUARDED_BY(mutex_);
};

}  // namespace hearth
