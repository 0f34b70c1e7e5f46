// A compiled grammar and a sequence's position in it: see the header.
#include "engine/constraint/constraint.h"

#include <utility>

#include "engine/constraint/automaton/automaton.h"
#include "engine/constraint/mask/mask_cache.h"
#include "engine/constraint/mask/token_trie.h"

namespace hearth {

std::shared_ptr<const Constraint> Constraint::compile(const Grammar& grammar,
                                                      std::shared_ptr<const TokenTrie> trie,
                                                      CompileBudget budget) {
  return std::make_shared<const Constraint>(grammar, std::move(trie), budget);
}

Constraint::Constraint(const Grammar& grammar, std::shared_ptr<const TokenTrie> trie, CompileBudget budget)
    : trie_(std::move(trie)),
      automaton_(std::make_unique<Automaton>(grammar, TokenTrie::kShortBytes, budget)),
      cache_(std::make_shared<MaskCache>(*automaton_, *trie_)) {
  cache_->initial();  // refuses grammars that are too ambiguous at the start of a text
  cache_->warm();
}

Constraint::~Constraint() = default;

std::shared_ptr<MaskCache> Constraint::cache() const {
  const MutexLock lock(mutex_);
  return cache_;
}

std::shared_ptr<MaskCache> Constraint::cache_after(const std::shared_ptr<MaskCache>& full) const {
  const MutexLock lock(mutex_);
  if (cache_ == full) cache_ = std::make_shared<MaskCache>(*automaton_, *trie_);
  return cache_;
}

ConstraintState::ConstraintState(std::shared_ptr<const Constraint> constraint)
    : constraint_(std::move(constraint)), cache_(constraint_->cache()), place_(cache_->initial()) {}

const TokenMask& ConstraintState::mask() {
  if (mask_ == nullptr) {
    leave_full_cache();
    mask_ = cache_->mask(place_.set);
  }
  return *mask_;
}

bool ConstraintState::accept(int32_t token) {
  const std::string_view bytes = constraint_->trie().bytes(token);
  if (bytes.empty()) return false;
  leave_full_cache();
  const ConstraintPlace next = cache_->after(place_.set, bytes);
  if (next.set == StackSets::kDead) return false;
  place_ = next;
  mask_.reset();
  return true;
}

std::string ConstraintState::forced() const { return cache_->forced(place_.set); }

/// Replaces a full cache by an empty one, so that caches stay small however long and varied the texts are.
void ConstraintState::leave_full_cache() {
  if (!cache_->is_full()) return;
  const std::shared_ptr<MaskCache> next = constraint_->cache_after(cache_);
  place_.set = next->copy(*cache_, place_.set);
  cache_ = next;
}

}  // namespace hearth
