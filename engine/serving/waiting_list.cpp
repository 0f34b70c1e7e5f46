// See the header.
#include "engine/serving/waiting_list.h"

#include <algorithm>
#include <cassert>
#include <utility>

namespace hearth {
namespace {

// The approximate number of clients for which the last turn is remembered. Beyond this number, clients
// without a waiting sequence are forgotten.
constexpr size_t kMostTurns = 4096;

}  // namespace

void WaitingList::add(std::unique_ptr<Sequence> sequence) {
  if (requests_.empty() || requests_.back().id != sequence->request_id) {
    requests_.push_back({.id = sequence->request_id,
                         .client = sequence->client,
                         .priority = sequence->priority,
                         .sequences = {}});
  }
  requests_.back().sequences.push_back(std::move(sequence));
  ++n_sequences_;
}

void WaitingList::add_first(std::unique_ptr<Sequence> sequence) {
  assert(sequence->was_set_back);
  Request request{.id = sequence->request_id,
                  .client = sequence->client,
                  .priority = sequence->priority,
                  .sequences = {}};
  request.sequences.push_back(std::move(sequence));
  requests_.push_front(std::move(request));
  ++n_sequences_;
}

Sequence* WaitingList::next(Slots slots, const std::function<bool(const Sequence&)>& held_back) const {
  const auto n_in_slots = [&](const auto& of) {
    return std::ranges::count_if(slots,
                                 [&](const std::unique_ptr<Sequence>& other) { return other && of(*other); });
  };
  const auto first_of = [&](const Request& request) -> Sequence* {
    const auto first = std::ranges::find_if(request.sequences, [&](const auto& s) { return !held_back(*s); });
    return first == request.sequences.end() ? nullptr : first->get();
  };
  // 1. Choose the client.
  const Request* of_client = nullptr;
  std::pair<std::ptrdiff_t, uint64_t> fewest_of_client;
  for (const Request& request : requests_) {
    const auto turn = turns_.find(request.client);
    const std::pair key(n_in_slots([&](const Sequence& s) { return s.client == request.client; }),
                        turn == turns_.end() ? uint64_t{0} : turn->second);
    // Sequences that were set back come before all others.
    const bool set_back = request.sequences.front()->was_set_back;
    if (!set_back && of_client != nullptr && key >= fewest_of_client) continue;
    Sequence* const first = first_of(request);
    if (first == nullptr) continue;
    if (set_back) return first;
    of_client = &request;
    fewest_of_client = key;
  }
  if (of_client == nullptr) return nullptr;
  // 2. Choose among its requests.
  Sequence* best = nullptr;
  std::pair<int, std::ptrdiff_t> fewest;
  for (const Request& request : requests_) {
    if (request.client != of_client->client) continue;
    const std::pair key(request.priority,
                        n_in_slots([&](const Sequence& s) { return s.request_id == request.id; }));
    if (best != nullptr && key >= fewest) continue;
    Sequence* const first = first_of(request);
    if (first == nullptr) continue;
    best = first;
    fewest = key;
  }
  return best;
}

std::unique_ptr<Sequence> WaitingList::take(const Sequence& sequence) {
  for (auto request = requests_.begin(); request != requests_.end(); ++request) {
    if (request->id != sequence.request_id) continue;
    const auto at = std::ranges::find(request->sequences, &sequence, &std::unique_ptr<Sequence>::get);
    // Each sequence that was set back has a separate entry in requests_, so a request may have several
    // entries.
    if (at == request->sequences.end()) continue;
    std::unique_ptr<Sequence> taken = std::move(*at);
    request->sequences.erase(at);
    if (request->sequences.empty()) requests_.erase(request);
    turns_[taken->client] = ++n_turns_;
    if (turns_.size() > kMostTurns) forget_turns();
    --n_sequences_;
    return taken;
  }
  assert(false);
  return nullptr;
}

std::vector<std::unique_ptr<Sequence>> WaitingList::remove(
    const std::function<bool(const Sequence&)>& which) {
  std::vector<std::unique_ptr<Sequence>> removed;
  for (Request& request : requests_) {
    const size_t before = removed.size();
    for (std::unique_ptr<Sequence>& sequence : request.sequences) {
      if (which(*sequence)) removed.push_back(std::move(sequence));
    }
    if (removed.size() > before) std::erase(request.sequences, nullptr);
  }
  n_sequences_ -= static_cast<int>(removed.size());
  if (!removed.empty())
    std::erase_if(requests_, [](const Request& request) { return request.sequences.empty(); });
  return removed;
}

// Forgets the turns of clients without a waiting sequence. If such a client returns, it counts as new and
// gets the first turn.
void WaitingList::forget_turns() {
  std::erase_if(turns_, [&](const auto& turn) {
    return std::ranges::find(requests_, turn.first, &Request::client) == requests_.end();
  });
}

}  // namespace hearth
