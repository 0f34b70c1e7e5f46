// Walks through the vocabulary with sets of stacks. See the header.
#include "engine/constraint/mask/mask_cache.h"

#include <algorithm>
#include <bitset>
#include <utility>

namespace hearth {
namespace {

/// Maximum number of stacks that are examined one by one. For more stacks, one walk with all of them together
/// is faster.
constexpr size_t kMostSeparate = 16;
/// Limits of warm(): how many trie nodes it visits (about 5 ns each), and how many steps it takes in
/// StackSets (about 100 ns each).
constexpr size_t kWarmNodes = 2'000'000;
constexpr size_t kWarmWork = 30'000;
constexpr size_t kWarmBytes = MaskCache::kMostBytes / 4;

}  // namespace

MaskCache::MaskCache(const Automaton& automaton, const TokenTrie& trie)
    : automaton_(automaton),
      trie_(trie),
      sets_(automaton),
      views_(static_cast<size_t>(automaton.n_views())),
      set_at_depth_(TokenTrie::kMostBytes + 1) {}

MaskCache::Place MaskCache::initial() {
  const MutexLock lock(mutex_);
  sets_.begin_work();
  return place(sets_.initial());
}

MaskCache::Place MaskCache::after(Set set, std::string_view bytes) {
  const MutexLock lock(mutex_);
  sets_.begin_work();
  for (const char byte : bytes) set = sets_.next(set, static_cast<uint8_t>(byte));
  return place(set);
}

MaskCache::Place MaskCache::place(Set set) {
  const bool may_end = sets_.has(set, StackSets::kComplete);
  return {set, may_end, may_end && sets_.stacks_of(set).size() == 1};
}

std::shared_ptr<const TokenMask> MaskCache::mask(Set set) {
  const MutexLock lock(mutex_);
  const auto index = static_cast<size_t>(set);
  if (index < set_masks_.size() && set_masks_[index] != nullptr) return set_masks_[index];
  sets_.begin_work();
  auto found = std::make_shared<TokenMask>(trie_.n_vocab());
  add_short_tokens(set, *found);
  allow_reached(trie_.long_tokens(), 0, trie_.long_tokens().n_nodes(), set, *found);
  if (index >= set_masks_.size()) set_masks_.resize(index + 1 + index / 2);
  mask_bytes_ += found->words.size() * sizeof(uint64_t);
  set_masks_[index] = found;
  return found;
}

void MaskCache::add_short_tokens(Set set, TokenMask& mask) {
  std::vector<StackSets::Stack> stacks;
  for (const StackSets::Stack stack : sets_.stacks_of(set))
    if (stack >= StackSets::kFirstReal) stacks.push_back(stack);
  if (stacks.size() <= kMostSeparate) return add_separately(stacks, mask);
  allow_reached(trie_.short_tokens(), 0, trie_.short_tokens().n_nodes(), set, mask);
}

void MaskCache::add_separately(const std::vector<StackSets::Stack>& stacks, TokenMask& mask) {
  std::vector<std::pair<const ViewMask*, Set>> done;  // pairs that were already examined
  const ByteTrie& trie = trie_.short_tokens();
  for (const StackSets::Stack stack : stacks) {
    const ViewMask& own = view_mask(sets_.top(stack));
    for (size_t i = 0; i < own.mask.words.size(); ++i) mask.words[i] |= own.mask.words[i];
    for (const int32_t token : own.tokens) mask.allow(token);
    if (own.ends.empty()) continue;
    const Set rest = sets_.after_end(stack);
    if (std::find(done.begin(), done.end(), std::pair(&own, rest)) != done.end()) continue;
    done.emplace_back(&own, rest);
    if (sets_.stacks_of(rest).back() < StackSets::kFirstReal) continue;  // nothing follows
    for (const uint32_t node : own.ends) allow_reached(trie, node + 1, trie.nodes[node].end, rest, mask);
  }
}

const MaskCache::ViewMask& MaskCache::view_mask(int32_t state) {
  std::unique_ptr<const ViewMask>& view = views_[static_cast<size_t>(automaton_.view(state))];
  if (view == nullptr) view = find_view_mask(state);
  return *view;
}

std::unique_ptr<const MaskCache::ViewMask> MaskCache::find_view_mask(int32_t state) {
  auto found = std::make_unique<ViewMask>();
  const ByteTrie& trie = trie_.short_tokens();
  walk(trie, 0, trie.n_nodes(), sets_.alone(state), [&](uint32_t node, Set set) HEARTH_REQUIRES(mutex_) {
    const std::span<const int32_t> tokens = trie.tokens_at(node);
    found->tokens.insert(found->tokens.end(), tokens.begin(), tokens.end());
    const bool is_leaf = trie.nodes[node].end == node + 1;
    if (!is_leaf && sets_.stacks_of(set).front() == StackSets::kContext) found->ends.push_back(node);
  });
  const size_t n_words = (trie_.n_vocab() + 63) / 64;
  if (found->tokens.size() > n_words) {  // a list of tokens would take more than half the memory of a mask
    found->mask = TokenMask(trie_.n_vocab());
    for (const int32_t token : std::exchange(found->tokens, {})) found->mask.allow(token);
  }
  found->tokens.shrink_to_fit();
  mask_bytes_ +=
      found->mask.words.size() * sizeof(uint64_t) + (found->tokens.size() + found->ends.size()) * 4;
  return found;
}

template <typename Visit>
void MaskCache::walk(const ByteTrie& trie, uint32_t first, uint32_t last, Set from, Visit visit) {
  if (first < last) set_at_depth_[trie.nodes[first].depth - size_t{1}] = from;
  for (uint32_t i = first; i < last;) {
    const ByteTrie::Node& node = trie.nodes[i];
    const Set set = sets_.next(set_at_depth_[node.depth - size_t{1}], node.byte);
    ++n_visited_;
    if (set == StackSets::kDead) {
      i = node.end;
      continue;
    }
    set_at_depth_[node.depth] = set;
    visit(i, set);
    ++i;
  }
}

void MaskCache::allow_reached(const ByteTrie& trie, uint32_t first, uint32_t last, Set from,
                              TokenMask& mask) {
  walk(trie, first, last, from, [&](uint32_t node, Set) {
    for (const int32_t token : trie.tokens_at(node)) mask.allow(token);
  });
}

void MaskCache::warm() {
  const MutexLock lock(mutex_);
  n_visited_ = 0;
  size_t work = 0;
  for (int32_t state = 0; state < automaton_.n_states(); ++state) {
    if (n_visited_ > kWarmNodes || work > kWarmWork || bytes() > kWarmBytes) return;
    if (automaton_.bytes_of(state).empty()) continue;
    sets_.begin_work();
    view_mask(state);
    work += sets_.work_done();
  }
}

std::string MaskCache::forced(Set set) {
  const MutexLock lock(mutex_);
  sets_.begin_work();
  std::string text;
  while (text.size() < kMostForcedBytes && !sets_.has(set, StackSets::kComplete)) {
    const int byte = only_byte(set);
    if (byte < 0) break;
    text.push_back(static_cast<char>(byte));
    set = sets_.next(set, static_cast<uint8_t>(byte));
  }
  return text;
}

/// Returns the only byte that can come next; -1 if there are several, or none.
int MaskCache::only_byte(Set set) {
  int only = -1;
  for (const StackSets::Stack stack : sets_.stacks_of(set)) {
    for (const Dfa::ByteEdge& edge : automaton_.bytes_of(sets_.top(stack))) {
      if (edge.first != edge.last || (only >= 0 && only != edge.first)) return -1;
      only = edge.first;
    }
  }
  return only;
}

bool MaskCache::is_full() {
  const MutexLock lock(mutex_);
  return bytes() > kMostBytes;
}

size_t MaskCache::bytes() const {
  return mask_bytes_ + sets_.bytes() + (views_.size() + 2 * set_masks_.size()) * sizeof(void*);
}

MaskCache::Set MaskCache::copy(MaskCache& from, Set set) {
  const MutexLock from_lock(from.mutex_);
  const MutexLock lock(mutex_);
  return sets_.copy(from.sets_, set);
}

}  // namespace hearth
