// Tests how sequences finish, without an engine: what is freed, kept and counted, and the events for their
// clients.
#include "engine/serving/sequence_finisher.h"

#include <chrono>
#include <memory>
#include <optional>
#include <utility>

#include "tests/support/catch.h"

namespace hearth::sequence_finisher_test {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kBlockTokens = 4;

/// A finisher with all that it works on, and sequences that came through the queue.
struct Rig {
  explicit Rig(int n_slots)
      : queue(n_slots, 10),
        blocks(32, kBlockTokens, n_slots, 8),
        scheduler({.n_slots = n_slots, .prefill_chunk = 16, .max_tokens = 32, .max_logit_rows = 8}, blocks),
        finisher(scheduler, queue, figures) {}

  std::shared_ptr<TokenStream> add(Clock::time_point deadline = Clock::time_point::max()) {
    auto sequence = std::make_unique<Sequence>();
    sequence->request_id = ++n_added;
    sequence->stream = std::make_shared<TokenStream>(1);
    sequence->tokens.assign(2 * kBlockTokens, static_cast<int32_t>(n_added));
    sequence->n_prompt = 2 * kBlockTokens;
    sequence->accepted_at = Clock::now();
    sequence->deadline = deadline;
    const std::shared_ptr<TokenStream> stream = sequence->stream;
    std::vector<std::unique_ptr<Sequence>> sequences;
    sequences.push_back(std::move(sequence));
    const std::optional<Refusal> refusal = queue.push(std::move(sequences));
    REQUIRE_FALSE(refusal);
    return stream;
  }

  void admit() {
    std::vector<std::unique_ptr<Sequence>> added;
    queue.take_new(added);
    for (std::unique_ptr<Sequence>& sequence : added) scheduler.add(std::move(sequence));
    scheduler.admit([this](Sequence& sequence, int /*slot*/) {
      queue.admitted(sequence.request_id);
      sequence.admitted_at = Clock::now();
    });
  }

  /// Computes all prompts in slots.
  void step() {
    for (const StepPiece& piece : scheduler.next_step()) {
      scheduler.computed(piece.slot, piece.n_tokens);
      scheduler.slots()[static_cast<size_t>(piece.slot)]->prefilled_at = Clock::now();
    }
  }

  RequestQueue queue;
  KvBlocks blocks;
  Scheduler scheduler;
  EngineFigures figures;
  SequenceFinisher finisher;
  uint64_t n_added = 0;
};

std::optional<FinishedEvent> last_event(TokenStream& stream) {
  std::optional<StreamEvent> event = stream.pop_for(std::chrono::milliseconds(0));
  if (!event) return std::nullopt;
  return std::get<FinishedEvent>(std::move(event->what));
}

uint64_t n_finished(const EngineFigures& figures, FinishReason reason) {
  return figures.n_finished[static_cast<size_t>(reason)];
}

}  // namespace

TEST_CASE("sequence finisher: a sequence leaves its slot, and its client gets the result") {
  Rig rig(1);
  const std::shared_ptr<TokenStream> stream = rig.add();
  rig.admit();
  rig.step();
  Sequence& sequence = *rig.scheduler.slots()[0];
  sequence.tokens.insert(sequence.tokens.end(), {5, 6});
  sequence.draft_counts = {.n_drafted = 3, .n_accepted = 1, .n_predicted = 0, .n_foreseen = 0};
  rig.finisher.finish_slot(0, {.reason = FinishReason::kLength});
  CHECK(rig.scheduler.idle());
  CHECK(rig.queue.counts().n_running == 0);
  const std::optional<FinishedEvent> event = last_event(*stream);
  REQUIRE(event);
  CHECK(event->reason == FinishReason::kLength);
  CHECK(event->n_prompt_tokens == 2 * kBlockTokens);
  CHECK(event->n_generated_tokens == 2);
  CHECK(event->drafts.n_drafted == 3);
  CHECK(event->queue_seconds >= 0);
  CHECK(event->prefill_seconds >= 0);
  CHECK(event->decode_seconds >= 0);
  CHECK(n_finished(rig.figures, FinishReason::kLength) == 1);
  CHECK(rig.finisher.mean_service_seconds() > 0);
}

TEST_CASE("sequence finisher: the prefix cache keeps a sequence's blocks unless it failed") {
  const FinishReason reason = GENERATE(FinishReason::kStop, FinishReason::kCancelled, FinishReason::kFailed);
  Rig rig(1);
  const std::shared_ptr<TokenStream> stream = rig.add();
  rig.admit();
  rig.step();
  rig.finisher.finish_slot(0, {.reason = reason, .error = "why"});
  const bool failed = reason == FinishReason::kFailed;
  CHECK(rig.blocks.n_unused_cached() == (failed ? 0 : 2));
  CHECK((rig.finisher.mean_service_seconds() > 0) == !failed);  // failures say nothing about service
  CHECK(last_event(*stream)->error == "why");
}

TEST_CASE("sequence finisher: cancelled and late sequences end, in slots and waiting; others stay") {
  Rig rig(2);
  const Clock::time_point past = Clock::now() - std::chrono::seconds(1);
  const std::shared_ptr<TokenStream> runs = rig.add(), late = rig.add(past);
  const std::shared_ptr<TokenStream> waits = rig.add(), waits_late = rig.add(past);
  const std::shared_ptr<TokenStream> waits_cancelled = rig.add();
  rig.admit();
  REQUIRE(rig.scheduler.n_running() == 2);
  rig.finisher.finish_unwanted();
  CHECK(last_event(*late)->reason == FinishReason::kTimedOut);
  CHECK(last_event(*waits_late)->reason == FinishReason::kTimedOut);
  CHECK(rig.scheduler.n_running() == 1);
  CHECK(rig.scheduler.n_waiting() == 2);

  waits_cancelled->cancel();
  runs->cancel();
  rig.finisher.finish_unwanted();
  CHECK(last_event(*runs)->reason == FinishReason::kCancelled);
  CHECK(last_event(*waits_cancelled)->reason == FinishReason::kCancelled);
  CHECK_FALSE(last_event(*waits));
  CHECK(rig.scheduler.n_waiting() == 1);
  CHECK(rig.queue.counts().n_waiting == 1);
  CHECK(n_finished(rig.figures, FinishReason::kTimedOut) == 2);
  CHECK(n_finished(rig.figures, FinishReason::kCancelled) == 2);
}

TEST_CASE("sequence finisher: everything ends with the sentence it was given") {
  Rig rig(1);
  const std::shared_ptr<TokenStream> runs = rig.add(), waits = rig.add();
  rig.admit();
  rig.finisher.finish_all({.reason = FinishReason::kFailed, .error = "the reason"});
  for (const std::shared_ptr<TokenStream>& stream : {runs, waits}) {
    const std::optional<FinishedEvent> event = last_event(*stream);
    REQUIRE(event);
    CHECK(event->reason == FinishReason::kFailed);
    CHECK(event->error == "the reason");
  }
  CHECK(rig.scheduler.idle());
  CHECK(rig.queue.counts().n_waiting == 0);
}

}  // namespace hearth::sequence_finisher_test
