// See the header.
#include "engine/serving/sequence_finisher.h"

#include <chrono>
#include <utility>

namespace hearth {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_between(Clock::time_point begin, Clock::time_point end) {
  return std::chrono::duration<double>(end - begin).count();
}

FinishedEvent finished_event(const Sequence& sequence, const SequenceEnd& end) {
  const Clock::time_point now = Clock::now();
  const bool admitted = sequence.admitted_at != Clock::time_point{};
  const bool prefilled = sequence.prefilled_at != Clock::time_point{};
  FinishedEvent event{.reason = end.reason, .n_prompt_tokens = sequence.n_prompt, .error = end.error};
  event.n_cached_tokens = sequence.n_cached;
  event.n_matched_tokens = sequence.n_matched;
  event.n_generated_tokens = sequence.n_generated();
  event.drafts = sequence.draft_counts;
  event.queue_seconds = seconds_between(sequence.accepted_at, admitted ? sequence.admitted_at : now);
  if (admitted)
    event.prefill_seconds = seconds_between(sequence.admitted_at, prefilled ? sequence.prefilled_at : now);
  if (prefilled) event.decode_seconds = seconds_between(sequence.prefilled_at, now);
  return event;
}

bool is_cancelled(const Sequence& sequence) { return sequence.stream->cancelled(sequence.index); }

// Returns the end of a sequence whose results are no longer needed: cancelled or timed out.
SequenceEnd unwanted_end(const Sequence& sequence) {
  return {.reason = is_cancelled(sequence) ? FinishReason::kCancelled : FinishReason::kTimedOut};
}

}  // namespace

SequenceFinisher::SequenceFinisher(Scheduler& scheduler, RequestQueue& queue, EngineFigures& figures)
    : scheduler_(scheduler), queue_(queue), figures_(figures) {}

void SequenceFinisher::finish_slot(int slot, const SequenceEnd& end) {
  const bool failed = end.reason == FinishReason::kFailed;
  const std::unique_ptr<Sequence> sequence = scheduler_.remove(slot, !failed);
  FinishedEvent event = finished_event(*sequence, end);
  if (!failed) service_time_.add(event.prefill_seconds + event.decode_seconds);
  count(event);
  // Free the slot before pushing the event: a client that reads the event may rely on the free slot.
  queue_.slot_freed();
  sequence->stream->push({.sequence = sequence->index, .what = std::move(event)});
}

void SequenceFinisher::finish_waiting(std::unique_ptr<Sequence> sequence, const SequenceEnd& end) {
  FinishedEvent event = finished_event(*sequence, end);
  count(event);
  queue_.abandoned(sequence->request_id);
  sequence->stream->push({.sequence = sequence->index, .what = std::move(event)});
}

void SequenceFinisher::count(const FinishedEvent& event) {
  ++figures_.n_finished[static_cast<size_t>(event.reason)];
  if (event.n_generated_tokens > 1)
    figures_.seconds_per_token.add(event.decode_seconds / (event.n_generated_tokens - 1));
}

void SequenceFinisher::finish_unwanted() {
  const Clock::time_point now = Clock::now();
  const auto is_unwanted = [now](const Sequence& sequence) {
    return now >= sequence.deadline || is_cancelled(sequence);
  };
  const int n_slots = static_cast<int>(scheduler_.slots().size());
  for (int slot = 0; slot < n_slots; ++slot) {
    const Sequence* const sequence = scheduler_.slots()[static_cast<size_t>(slot)].get();
    if (sequence && is_unwanted(*sequence)) finish_slot(slot, unwanted_end(*sequence));
  }
  if (scheduler_.n_waiting() == 0) return;
  for (std::unique_ptr<Sequence>& sequence : scheduler_.remove_waiting(is_unwanted)) {
    const SequenceEnd end = unwanted_end(*sequence);
    finish_waiting(std::move(sequence), end);
  }
}

void SequenceFinisher::finish_all(const SequenceEnd& end) {
  const int n_slots = static_cast<int>(scheduler_.slots().size());
  for (int slot = 0; slot < n_slots; ++slot) {
    if (scheduler_.slots()[static_cast<size_t>(slot)]) finish_slot(slot, end);
  }
  const auto all = [](const Sequence&) { return true; };
  for (std::unique_ptr<Sequence>& sequence : scheduler_.remove_waiting(all)) {
    finish_waiting(std::move(sequence), end);
  }
}

}  // namespace hearth
