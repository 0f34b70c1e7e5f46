// Counts accepted requests and the slots they take. The header explains the numbers.
#include "engine/serving/request_queue.h"

#include <algorithm>
#include <cassert>
#include <iterator>
#include <unordered_set>
#include <utility>

namespace hearth {
namespace {

/// Bytes that count for a waiting sequence: the struct itself and the lists that a client can make long.
size_t bytes_of(const Sequence& sequence) {
  return sizeof(Sequence) + sequence.tokens.size() * sizeof(int32_t) +
         sequence.request.sampling.logit_bias.size() * sizeof(sequence.request.sampling.logit_bias.front());
}

}  // namespace

RequestQueue::RequestQueue(int n_slots, int capacity, size_t most_bytes)
    : n_slots_(n_slots), capacity_(capacity), most_bytes_(most_bytes), n_free_(n_slots) {
  assert(n_slots > 0 && capacity >= 0);
}

std::optional<Refusal> RequestQueue::push(std::vector<std::unique_ptr<Sequence>> sequences) {
  assert(!sequences.empty());
  const int n_new = static_cast<int>(sequences.size());
  const uint64_t client = sequences.front()->client;
  size_t bytes = 0;
  for (const std::unique_ptr<Sequence>& sequence : sequences) bytes += bytes_of(*sequence);
  {
    const MutexLock lock(mutex_);
    if (closed_) return Refusal::kStopping;
    int n_promised = 0;  // slots that requests further ahead will take
    for (const Entry& entry : entries_) n_promised += std::min(entry.n_left, n_slots_);
    const bool covered = n_promised + std::min(n_new, n_slots_) <= n_free_;
    if (!covered && !has_room(client, bytes)) return Refusal::kQueueFull;
    entries_.push_back(
        {.request_id = sequences.front()->request_id, .client = client, .n_left = n_new, .bytes = bytes});
    std::ranges::move(sequences, std::back_inserter(new_));
  }
  work_.notify_one();
  return std::nullopt;
}

// Whether a request may be accepted although the free slots do not suffice for it and for the entries before
// it (see the header).
bool RequestQueue::has_room(uint64_t client, size_t bytes) const {
  int n_promised = 0, n_waiting = 0, n_own = 0;
  std::unordered_set<uint64_t> clients{client};
  for (const Entry& entry : entries_) {
    n_promised += std::min(entry.n_left, n_slots_);
    bytes += entry.bytes;
    if (n_promised <= n_free_) continue;
    ++n_waiting;
    clients.insert(entry.client);
    if (entry.client == client) ++n_own;
  }
  if (bytes > most_bytes_) return false;
  if (n_waiting < capacity_) return true;
  const int share = capacity_ / static_cast<int>(clients.size());
  return n_own < share && n_waiting < capacity_ + capacity_ / 4;
}

void RequestQueue::close() {
  const MutexLock lock(mutex_);
  closed_ = true;
}

void RequestQueue::wake() {
  {
    const MutexLock lock(mutex_);
    woken_ = true;
  }
  work_.notify_one();
}

RequestQueue::Counts RequestQueue::counts() const {
  const MutexLock lock(mutex_);
  return {.n_running = n_slots_ - n_free_, .n_waiting = static_cast<int>(entries_.size())};
}

bool RequestQueue::wait_until_empty(std::chrono::steady_clock::time_point deadline) const {
  MutexLock lock(mutex_);
  return empty_.wait_until(lock.for_wait(), deadline, [this]() HEARTH_REQUIRES(mutex_) {
    return entries_.empty() && n_free_ == n_slots_;
  });
}

void RequestQueue::wait_for_work(std::chrono::milliseconds timeout) {
  MutexLock lock(mutex_);
  work_.wait_for(lock.for_wait(), timeout,
                 [this]() HEARTH_REQUIRES(mutex_) { return woken_ || !new_.empty(); });
  woken_ = false;
}

void RequestQueue::take_new(std::vector<std::unique_ptr<Sequence>>& into) {
  const MutexLock lock(mutex_);
  std::ranges::move(new_, std::back_inserter(into));
  new_.clear();
}

void RequestQueue::admitted(uint64_t request_id) {
  const MutexLock lock(mutex_);
  assert(n_free_ > 0);
  take_off(request_id);
  --n_free_;
}

void RequestQueue::set_back(uint64_t request_id) {
  const MutexLock lock(mutex_);
  assert(n_free_ < n_slots_);
  ++n_free_;
  const auto entry = std::ranges::find(entries_, request_id, &Entry::request_id);
  if (entry != entries_.end()) {
    ++entry->n_left;
  } else {
    entries_.push_front({.request_id = request_id, .n_left = 1});
  }
}

void RequestQueue::slot_freed() {
  const MutexLock lock(mutex_);
  assert(n_free_ < n_slots_);
  ++n_free_;
  if (entries_.empty() && n_free_ == n_slots_) empty_.notify_all();
}

void RequestQueue::abandoned(uint64_t request_id) {
  const MutexLock lock(mutex_);
  take_off(request_id);
  if (entries_.empty() && n_free_ == n_slots_) empty_.notify_all();
}

void RequestQueue::take_off(uint64_t request_id) {
  const auto entry = std::ranges::find(entries_, request_id, &Entry::request_id);
  assert(entry != entries_.end());
  if (--entry->n_left == 0) entries_.erase(entry);
}

}  // namespace hearth
