// Implements the Engine. The functions for other threads come first, then the engine thread's loop.
#include "engine/engine.h"

#include <algorithm>
#include <cassert>
#include <exception>
#include <new>
#include <stdexcept>
#include <utility>

#include "engine/check_request.h"
#include "engine/serving/state_copies.h"
#include "engine/serving/step_batch.h"

namespace hearth {
namespace {

// An idle engine must update its heartbeat at least once a second. Waiting only half a second leaves a margin
// on a busy machine.
constexpr std::chrono::milliseconds kIdleBeat{500};

// The maximum wait at the end until prefixes are on disk. Usually only those of the last step are left.
constexpr std::chrono::seconds kLastWrites{2};

double seconds(std::chrono::steady_clock::duration duration) {
  return std::chrono::duration<double>(duration).count();
}

SpeculationOptions within(SpeculationOptions options, const StepLimits& limits, ForwardModel& model) {
  options.max_draft = std::min(options.max_draft, limits.max_drafts);
  options.predictor = limits.predicts ? &model : nullptr;
  return options;
}

int blocks_for(int n_positions, int block_tokens) { return (n_positions + block_tokens - 1) / block_tokens; }

}  // namespace

Engine::Engine(ForwardModel& model, const EngineOptions& options)
    : model_(model),
      options_(options),
      limits_(checked_limits(model.limits(), options)),
      queue_(options.n_slots, options.queue_capacity),
      blocks_(empty_blocks()),
      scheduler_({.n_slots = options.n_slots,
                  .prefill_chunk = limits_.encodes ? limits_.max_tokens : options.prefill_chunk,
                  .prefill_beside = options.prefill_beside,
                  .max_tokens = limits_.max_tokens,
                  .max_logit_rows = limits_.max_logit_rows,
                  .whole_prompts = limits_.encodes,
                  .promise_tokens = options.promise_tokens,
                  .reuses_prefixes = !limits_.recurrent || limits_.n_snapshots > 0},
                 blocks_),
      results_(limits_.n_vocab, limits_.has_head ? &model : nullptr, limits_.scores),
      speculation_(within(options.speculation, limits_, model), options.n_slots, limits_.n_vocab,
                   options.context_tokens),
      batch_(reserved_batch(limits_)),
      finisher_(scheduler_, queue_, figures_) {
  pieces_.reserve(static_cast<size_t>(options.n_slots));
  scheduler_.keep_generated(!limits_.fast_prompts);
  if (options_.disk.max_bytes > 0) start_disk();
  beat();
  publish_figures();
  thread_ = std::jthread([this](const std::stop_token& stop) { run(stop); });
}

Engine::~Engine() {
  queue_.close();
  thread_.request_stop();
  queue_.wake();
}

std::variant<std::shared_ptr<TokenStream>, Refusal> Engine::submit(GenerationRequest request) {
  check_request(request, limits_);
  for (const SequenceRequest& sequence : request.sequences) {
    const int64_t n_positions = static_cast<int64_t>(sequence.prompt.size()) + sequence.max_tokens;
    if (n_positions > options_.context_tokens) return Refusal::kContextExceeded;
  }
  const auto stream = std::make_shared<TokenStream>(static_cast<int>(request.sequences.size()));
  const uint64_t id = last_request_id_.fetch_add(1, std::memory_order_relaxed) + 1;
  if (const std::optional<Refusal> refusal = queue_.push(make_sequences(std::move(request), id, stream))) {
    return *refusal;
  }
  return stream;
}

void Engine::when_idle(IdleWork work) {
  {
    const MutexLock lock(idle_work_mutex_);
    idle_work_ = std::move(work);
  }
  queue_.wake();
}

EngineStatus Engine::status() const {
  const RequestQueue::Counts counts = queue_.counts();
  EngineStatus status;
  status.n_slots = options_.n_slots;
  status.n_running = counts.n_running;
  status.n_waiting = counts.n_waiting;
  status.n_steps = n_steps_;
  status.n_prompt_tokens = n_prompt_tokens_;
  status.n_cached_tokens = n_cached_tokens_;
  status.n_generated_tokens = n_generated_tokens_;
  status.speculates = options_.speculation.on;
  status.n_drafted_tokens = n_drafted_tokens_;
  status.n_accepted_tokens = n_accepted_tokens_;
  status.n_set_back = n_set_back_;
  status.mean_service_seconds = finisher_.mean_service_seconds();
  status.failed = failed_;
  if (status.failed) status.failure = failure_;
  status.heartbeat = Clock::time_point(Clock::duration(heartbeat_.load(std::memory_order_relaxed)));
  return status;
}

EngineFigures Engine::figures() const {
  const MutexLock lock(published_mutex_);
  return published_;
}

bool Engine::drain(Clock::time_point deadline) {
  queue_.close();
  if (queue_.wait_until_empty(deadline)) return true;
  cut_ = true;
  queue_.wake();
  queue_.wait_until_empty(Clock::time_point::max());  // the engine thread checks cut_ before each step
  return false;
}

KvBlocks Engine::empty_blocks() const {
  return {limits_.n_blocks,   limits_.block_tokens,
          options_.n_slots,   blocks_for(options_.context_tokens, limits_.block_tokens),
          limits_.window,     step_tokens(limits_, options_),
          limits_.n_snapshots};
}

void Engine::run(const std::stop_token& stop) {
  try {
    model_.bind_thread();
    speculation_.bind_thread();
    serve(stop);
    take_new();
    finisher_.finish_all({.reason = FinishReason::kCancelled});
    if (disk_) disk_->finish(Clock::now() + kLastWrites);
  } catch (const std::bad_alloc&) {
    fail("there is not enough memory");
  } catch (const std::exception& error) {
    fail(error.what());
  } catch (...) {
    fail("an unknown exception");
  }
}

void Engine::serve(const std::stop_token& stop) {
  while (!stop.stop_requested()) {
    beat();
    take_new();
    if (cut_) finisher_.finish_all({.reason = FinishReason::kCancelled});
    finisher_.finish_unwanted();
    admit();
    const bool more_on_disk = disk_ != nullptr && disk_->work();
    if (!scheduler_.has_work()) {
      // A sequence waits without a running one only if it was just set back; admit() admits it.
      if (more_on_disk || (scheduler_.n_running() == 0 && !scheduler_.idle())) continue;
      if (scheduler_.idle() && do_idle_work(stop)) continue;
      publish_figures();
      queue_.wait_for_work(kIdleBeat);
      continue;
    }
    step();
  }
}

void Engine::step() {
  const Clock::time_point scheduling = Clock::now();
  // 1. Choose the step's tokens.
  speculation_.draft(scheduler_.slots(), scheduler_.room_for_drafts());
  scheduler_.extend_promises([this](const Sequence& sequence) { count_set_back(sequence); });
  const std::span<const StepPiece> chosen = scheduler_.next_step();
  if (chosen.empty()) return;  // all others were set back, while some wait for the disk
  pieces_.assign(chosen.begin(), chosen.end());
  set_tables(blocks_, batch_);
  speculation_.predict(scheduler_.slots(), pieces_, batch_);
  fill_batch(pieces_, scheduler_.slots(), blocks_, batch_);
  if (limits_.n_snapshots > 0)
    add_state_copies(pieces_, scheduler_.slots(), scheduler_.keeps_generated(), blocks_, batch_);

  // 2. Compute them.
  const Clock::time_point begin = Clock::now();
  StepOutput rest = run_model();
  StepRecord record{.n_tokens = batch_.n_tokens(),
                    .only_decodes = batch_.logit_rows.size() == batch_.tokens.size(),
                    .seconds = seconds(Clock::now() - begin)};
  n_steps_.fetch_add(1, std::memory_order_relaxed);

  // 3. Publish each sequence's results.
  for (const StepPiece& piece : pieces_) {
    record.n_drafted += piece.n_drafted;
    record.n_accepted += finish_piece(piece, rest);
  }
  speculation_.step_took(record);
  record_figures(record, seconds(begin - scheduling), seconds(Clock::now() - begin) - record.seconds);
}

void Engine::count_set_back(const Sequence& sequence) {
  queue_.set_back(sequence.request_id);
  n_set_back_.fetch_add(1, std::memory_order_relaxed);
}

void Engine::record_figures(const StepRecord& step, double schedule_seconds, double choose_seconds) {
  const bool has_prompt = !batch_.prompt_rows.empty();
  (has_prompt ? figures_.prompt_step_seconds : figures_.decode_step_seconds).add(step.seconds);
  figures_.step_sequences.add(static_cast<double>(pieces_.size()));
  figures_.step_tokens.add(step.n_tokens);
  figures_.schedule_seconds += schedule_seconds;
  figures_.model_seconds += step.seconds;
  figures_.choose_seconds += choose_seconds;
  publish_figures();
}

void Engine::publish_figures() {
  const int64_t block_tokens = limits_.block_tokens;
  figures_.kv_tokens = limits_.n_blocks * block_tokens;
  figures_.kv_cached_tokens = blocks_.n_unused_cached() * block_tokens;
  figures_.kv_used_tokens = figures_.kv_tokens - figures_.kv_cached_tokens - blocks_.n_free() * block_tokens;
  model_.read_figures(figures_.model);
  if (disk_) figures_.disk = disk_->figures();
  const MutexLock lock(published_mutex_);
  published_ = figures_;
}

bool Engine::do_idle_work(const std::stop_token& stop) {
  IdleWork work;
  {
    const MutexLock lock(idle_work_mutex_);
    work = std::exchange(idle_work_, nullptr);
  }
  if (!work) return false;
  work([this, &stop] {
    beat();
    return !stop.stop_requested() && !cut_;
  });
  disk_.reset();  // the model may compute other bits now
  blocks_ = empty_blocks();
  scheduler_.keep_generated(!model_.limits().fast_prompts);
  speculation_.forget_costs();
  return true;
}

void Engine::take_new() {
  queue_.take_new(new_sequences_);
  for (std::unique_ptr<Sequence>& sequence : new_sequences_) {
    sequence->number = ++n_sequences_;
    scheduler_.add(std::move(sequence));
  }
  new_sequences_.clear();
}

void Engine::admit() {
  scheduler_.admit([this](Sequence& sequence, int slot) {
    queue_.admitted(sequence.request_id);
    sequence.n_copied = sequence.n_computed;
    if (const int32_t snapshot = blocks_.first_snapshot(slot); snapshot != SnapshotPool::kNone)
      model_.restore_states(slot, snapshot, sequence.n_computed);
    if (sequence.was_set_back) return;
    sequence.admitted_at = Clock::now();
    // Reserve room for every token that the sequence may generate, so that the token loop does not allocate.
    sequence.tokens.reserve(sequence.tokens.size() + static_cast<size_t>(sequence.request.max_tokens));
    if (sequence.request.embedding) sequence.pooled.emplace(limits_.d_model);
    count_prompt(sequence);
    n_cached_tokens_.fetch_add(static_cast<uint64_t>(sequence.n_cached), std::memory_order_relaxed);
    ++figures_.n_admitted;
    figures_.queue_seconds.add(seconds(sequence.admitted_at - sequence.accepted_at));
    if (sequence.n_cached > 0) ++figures_.n_prefix_hits;
    if (disk_) disk_->admitted(sequence, slot);
  });
}

void Engine::start_disk() {
  if (!limits_.copies || !limits_.generates || limits_.encodes) return;
  if (limits_.recurrent && limits_.n_snapshots == 0) return;
  disk_ = std::make_unique<DiskPrefixes>(
      options_.disk,
      DiskPrefixes::Inputs{.model = model_,
                           .blocks = blocks_,
                           .scheduler = scheduler_,
                           .wake = [this] { queue_.wake(); },
                           .on_read = [this](Sequence& sequence) { continue_after_read(sequence); },
                           .on_set_back = [this](const Sequence& sequence) { count_set_back(sequence); }});
}

// Counts the prompt tokens that came from disk as cached.
void Engine::continue_after_read(Sequence& sequence) {
  const int n_read = sequence.n_computed - sequence.n_cached;
  if (n_read <= 0) return;
  if (sequence.n_cached == 0) ++figures_.n_prefix_hits;
  sequence.n_cached = sequence.n_copied = sequence.n_computed;
  sequence.n_matched = std::max(sequence.n_matched, sequence.n_computed);
  n_cached_tokens_.fetch_add(static_cast<uint64_t>(n_read), std::memory_order_relaxed);
  count_prompt(sequence);
}

StepOutput Engine::run_model() {
  const StepOutput output = model_.forward(batch_);
  const auto check = [](std::span<const float> rows, size_t n_rows, int n_cols, const char* what) {
    const size_t n_expected = n_rows * static_cast<size_t>(n_cols);
    if (rows.size() >= n_expected) return;
    throw std::runtime_error("the forward pass returned " + std::to_string(rows.size()) + " " + what +
                             ", expected " + std::to_string(n_expected));
  };
  check(output.logits, batch_.logit_rows.size(), limits_.n_vocab, "logits");
  check(output.hidden, batch_.hidden_rows.size(), limits_.d_model, "values of hidden states");
  return output;
}

// Publishes the results of `piece`, which is one sequence's part of the step, and removes the piece's rows
// from `rest`. If the sequence has ended, frees its slot. Returns how many of the piece's draft tokens were
// accepted.
int Engine::finish_piece(const StepPiece& piece, StepOutput& rest) {
  Sequence& sequence = *scheduler_.slots()[static_cast<size_t>(piece.slot)];
  const bool embeds = sequence.request.embedding.has_value();
  std::span<const float>& rows = embeds ? rest.hidden : rest.logits;
  const auto n_values =
      static_cast<size_t>(piece.n_rows) * static_cast<size_t>(embeds ? limits_.d_model : limits_.n_vocab);
  const PieceResult result = results_.publish(sequence, piece, rows.first(n_values));
  rows = rows.subspan(n_values);

  // The next step overwrites the keys and values that were computed for rejected drafts.
  const int n_rejected = piece.n_drafted - result.chosen.n_accepted;
  if (n_rejected > 0) model_.reject_drafts(sequence.number, n_rejected);
  scheduler_.computed(piece.slot, piece.n_tokens - n_rejected);
  keep_state_copies(piece, sequence, blocks_, batch_);
  count_prompt(sequence);
  count_tokens(piece, result.chosen);
  if (result.ends_prompt && sequence.request.max_tokens > 0)
    figures_.first_token_seconds.add(seconds(sequence.prefilled_at - sequence.accepted_at));
  if (result.chosen.end) {
    if (disk_ && result.chosen.end->reason == FinishReason::kFailed) disk_->forget(piece.slot);
    finisher_.finish_slot(piece.slot, *result.chosen.end);
  } else if (result.chosen.n_tokens > 0) {
    speculation_.learn(sequence);
  }
  return result.chosen.n_accepted;
}

void Engine::count_tokens(const StepPiece& piece, const ChosenTokens& chosen) {
  n_generated_tokens_.fetch_add(static_cast<uint64_t>(chosen.n_tokens), std::memory_order_relaxed);
  n_drafted_tokens_.fetch_add(static_cast<uint64_t>(piece.n_drafted), std::memory_order_relaxed);
  n_accepted_tokens_.fetch_add(static_cast<uint64_t>(chosen.n_accepted), std::memory_order_relaxed);
}

// Increases n_prompt_tokens_ by the number of the sequence's prompt tokens whose keys and values entered the
// cache since the last call. A token that is computed again is not counted again.
void Engine::count_prompt(Sequence& sequence) {
  const int n_there = std::min(sequence.n_computed, sequence.n_prompt);
  if (n_there <= sequence.n_counted) return;
  n_prompt_tokens_.fetch_add(static_cast<uint64_t>(n_there - sequence.n_counted), std::memory_order_relaxed);
  sequence.n_counted = n_there;
}

void Engine::fail(const std::string& why) {
  failure_ = why;
  failed_ = true;
  queue_.close();  // now the queue holds everything accepted so far, and no request can be added
  take_new();
  finisher_.finish_all(
      {.reason = FinishReason::kFailed, .error = "the engine has stopped because of an error: " + why});
}

}  // namespace hearth
