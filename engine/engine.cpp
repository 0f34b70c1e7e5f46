// The engine: first the functions for other threads, then the engine thread's loop.
#include "engine/engine.h"

#include <algorithm>
#include <cassert>
#include <exception>
#include <new>
#include <stdexcept>
#include <utility>

#include "engine/check_request.h"
#include "engine/constraint/forced_tokens.h"
#include "engine/sampling/logprobs.h"

namespace hearth {
namespace {

// An idle engine promises a heartbeat at least once a second; half of that leaves a margin on a busy machine.
constexpr std::chrono::milliseconds kIdleBeat{500};

double seconds(std::chrono::steady_clock::duration duration) {
  return std::chrono::duration<double>(duration).count();
}

FinishedEvent finished_event(const Sequence& sequence, FinishReason reason, std::string error) {
  using Clock = std::chrono::steady_clock;
  const Clock::time_point now = Clock::now();
  const bool admitted = sequence.admitted_at != Clock::time_point{};
  const bool prefilled = sequence.prefilled_at != Clock::time_point{};
  FinishedEvent event{.reason = reason, .n_prompt_tokens = sequence.n_prompt, .error = std::move(error)};
  event.n_cached_tokens = sequence.n_cached;
  event.n_generated_tokens = sequence.n_generated();
  event.drafts = sequence.draft_counts;
  event.queue_seconds = seconds((admitted ? sequence.admitted_at : now) - sequence.accepted_at);
  if (admitted)
    event.prefill_seconds = seconds((prefilled ? sequence.prefilled_at : now) - sequence.admitted_at);
  if (prefilled) event.decode_seconds = seconds(now - sequence.prefilled_at);
  return event;
}

/// Thrown when a sequence cannot continue, whether or not its request is at fault. The message is for the
/// client.
class GenerationError : public std::runtime_error {
 public:
  GenerationError(FinishReason reason, std::string_view message)
      : std::runtime_error(std::string(message)), reason_(reason) {}
  FinishReason reason() const { return reason_; }

 private:
  FinishReason reason_;
};

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
                  .promise_tokens = options.promise_tokens},
                 blocks_),
      sampler_(limits_.n_vocab),
      speculation_(options.speculation, options.n_slots, limits_.n_vocab, options.context_tokens) {
  pieces_.reserve(static_cast<size_t>(options.n_slots));
  const size_t n_tokens = static_cast<size_t>(limits_.max_tokens);
  batch_.tokens.reserve(n_tokens);
  batch_.positions.reserve(n_tokens);
  batch_.slots.reserve(n_tokens);
  batch_.logit_rows.reserve(static_cast<size_t>(limits_.max_logit_rows));
  batch_.hidden_rows.reserve(n_tokens);
  batch_.prompt_rows.reserve(n_tokens);
  batch_.scored_rows.reserve(static_cast<size_t>(limits_.max_logit_rows));
  scheduler_.keep_generated(!limits_.fast_prompts);
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
  status.mean_service_seconds = service_time_.mean_seconds();
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
  queue_.wait_until_empty(Clock::time_point::max());  // the engine thread sees cut_ in its next step
  return false;
}

KvBlocks Engine::empty_blocks() const {
  return {limits_.n_blocks, limits_.block_tokens,
          options_.n_slots, blocks_for(options_.context_tokens, limits_.block_tokens),
          limits_.window,   step_tokens(limits_, options_)};
}

void Engine::run(const std::stop_token& stop) {
  try {
    model_.bind_thread();
    speculation_.bind_thread();
    serve(stop);
    take_new();
    finish_everything(FinishReason::kCancelled, {});
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
    if (cut_) finish_everything(FinishReason::kCancelled, {});
    drop_unwanted();
    admit();
    if (scheduler_.n_running() == 0) {
      // Waiting sequences are admitted if nothing runs, so there is nothing to do at all.
      assert(scheduler_.idle());
      if (do_idle_work(stop)) continue;
      publish_figures();
      queue_.wait_for_work(kIdleBeat);
      continue;
    }
    step();
  }
}

void Engine::step() {
  const Clock::time_point scheduling = Clock::now();
  speculation_.draft(scheduler_.slots(), scheduler_.room_for_drafts());
  scheduler_.extend_promises([this](Sequence& sequence) {
    queue_.set_back(sequence.request_id);
    n_set_back_.fetch_add(1, std::memory_order_relaxed);
  });
  const std::span<const StepPiece> chosen = scheduler_.next_step();
  pieces_.assign(chosen.begin(), chosen.end());
  build_batch(pieces_);
  const Clock::time_point begin = Clock::now();
  StepOutput rest = run_model();
  StepRecord record{.n_tokens = batch_.n_tokens(),
                    .only_decodes = batch_.logit_rows.size() == batch_.tokens.size(),
                    .seconds = seconds(Clock::now() - begin)};
  for (const StepPiece& piece : pieces_) record.n_drafted += piece.n_drafted;
  const uint64_t n_accepted_before = n_accepted_tokens_;
  n_steps_.fetch_add(1, std::memory_order_relaxed);
  const auto take = [](std::span<const float>& rows, int n_rows, int n_cols) {
    const size_t n = static_cast<size_t>(n_rows) * static_cast<size_t>(n_cols);
    return std::exchange(rows, rows.subspan(n)).first(n);
  };
  for (const StepPiece& piece : pieces_) {
    if (scheduler_.slots()[static_cast<size_t>(piece.slot)]->request.embedding) {
      finish_embedded_piece(piece, take(rest.hidden, piece.n_rows, limits_.d_model));
    } else {
      finish_piece(piece, take(rest.logits, piece.n_rows, limits_.n_vocab));
    }
  }
  record.n_accepted = static_cast<int>(n_accepted_tokens_ - n_accepted_before);
  speculation_.step_took(record);

  const bool has_prompt = !batch_.prompt_rows.empty();
  (has_prompt ? figures_.prompt_step_seconds : figures_.decode_step_seconds).add(record.seconds);
  figures_.step_sequences.add(static_cast<double>(pieces_.size()));
  figures_.step_tokens.add(record.n_tokens);
  figures_.schedule_seconds += seconds(begin - scheduling);
  figures_.model_seconds += record.seconds;
  figures_.choose_seconds += seconds(Clock::now() - begin) - record.seconds;
  publish_figures();
}

void Engine::publish_figures() {
  const int64_t block_tokens = limits_.block_tokens;
  figures_.kv_tokens = limits_.n_blocks * block_tokens;
  figures_.kv_cached_tokens = blocks_.n_unused_cached() * block_tokens;
  figures_.kv_used_tokens = figures_.kv_tokens - figures_.kv_cached_tokens - blocks_.n_free() * block_tokens;
  figures_.model = model_.figures();
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
  blocks_ = empty_blocks();
  scheduler_.keep_generated(!model_.limits().fast_prompts);
  speculation_.forget_costs();
  return true;
}

void Engine::take_new() {
  queue_.take_new(new_sequences_);
  for (std::unique_ptr<Sequence>& sequence : new_sequences_) scheduler_.add(std::move(sequence));
  new_sequences_.clear();
}

// Ends sequences whose result nobody needs: cancelled ones, and those whose deadline has passed.
void Engine::drop_unwanted() {
  const Clock::time_point now = Clock::now();
  const auto cancelled = [](const Sequence& sequence) { return sequence.stream->cancelled(sequence.index); };
  const auto is_over = [&](const Sequence& sequence) {
    return now >= sequence.deadline || cancelled(sequence);
  };
  const auto reason = [&](const Sequence& sequence) {
    return cancelled(sequence) ? FinishReason::kCancelled : FinishReason::kTimedOut;
  };
  for (int slot = 0; slot < options_.n_slots; ++slot) {
    const Sequence* const sequence = scheduler_.slots()[static_cast<size_t>(slot)].get();
    if (sequence && is_over(*sequence)) finish_slot(slot, reason(*sequence));
  }
  if (scheduler_.n_waiting() == 0) return;
  for (std::unique_ptr<Sequence>& sequence : scheduler_.remove_waiting(is_over)) {
    const FinishReason why = reason(*sequence);
    finish_waiting(std::move(sequence), why, {});
  }
}

void Engine::admit() {
  scheduler_.admit([this](Sequence& sequence) {
    queue_.admitted(sequence.request_id);
    if (sequence.was_set_back) return;
    sequence.admitted_at = Clock::now();
    // Reserve room for every token it may generate, so that the token loop does not allocate.
    sequence.tokens.reserve(sequence.tokens.size() + static_cast<size_t>(sequence.request.max_tokens));
    if (sequence.request.embedding) sequence.pooled.emplace(limits_.d_model);
    count_prompt(sequence);
    n_cached_tokens_.fetch_add(static_cast<uint64_t>(sequence.n_cached), std::memory_order_relaxed);
    ++figures_.n_admitted;
    figures_.queue_seconds.add(seconds(sequence.admitted_at - sequence.accepted_at));
    if (sequence.n_cached > 0) ++figures_.n_prefix_hits;
  });
}

void Engine::build_batch(std::span<const StepPiece> pieces) {
  batch_.clear();
  batch_.block_tables = blocks_.tables();
  batch_.window_tables = blocks_.window_tables();
  batch_.max_blocks = blocks_.max_blocks();
  for (const StepPiece& piece : pieces) {
    const Sequence& sequence = *scheduler_.slots()[static_cast<size_t>(piece.slot)];
    const int first_row = batch_.n_tokens() + piece.first_row;
    std::vector<int32_t>& rows = sequence.request.embedding ? batch_.hidden_rows : batch_.logit_rows;
    for (int row = 0; row < piece.n_rows; ++row) {
      const bool scores = piece.begin + piece.first_row + row < sequence.n_prompt - 1;
      if (scores && !sequence.request.embedding)
        batch_.scored_rows.push_back(static_cast<int32_t>(rows.size()));
      rows.push_back(first_row + row);
    }
    for (int position = piece.begin; position < piece.begin + piece.n_tokens; ++position) {
      const auto at = static_cast<size_t>(position);
      const size_t n_known = sequence.tokens.size();
      batch_.tokens.push_back(at < n_known ? sequence.tokens[at] : sequence.drafts.tokens()[at - n_known]);
      if (position < sequence.n_prompt) batch_.prompt_rows.push_back(batch_.n_tokens() - 1);
      batch_.positions.push_back(position);
      batch_.slots.push_back(piece.slot);
    }
  }
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

// Reports the next n_tokens of a sequence as computed.
void Engine::advance(int slot, int n_tokens) {
  scheduler_.computed(slot, n_tokens);
  count_prompt(*scheduler_.slots()[static_cast<size_t>(slot)]);
}

// Adds prompt tokens that are new in the cache to the total. Recomputed tokens are not counted again.
void Engine::count_prompt(Sequence& sequence) {
  const int n_there = std::min(sequence.n_computed, sequence.n_prompt);
  if (n_there <= sequence.n_counted) return;
  n_prompt_tokens_.fetch_add(static_cast<uint64_t>(n_there - sequence.n_counted), std::memory_order_relaxed);
  sequence.n_counted = n_there;
}

void Engine::finish_piece(const StepPiece& piece, std::span<const float> logits) {
  Sequence& sequence = *scheduler_.slots()[static_cast<size_t>(piece.slot)];
  const bool was_prefilling = sequence.prefilling();
  advance(piece.slot, piece.n_tokens - piece.n_drafted);
  if (was_prefilling && sequence.request.prompt_logprobs && !publish_prompt_logprobs(piece, logits)) {
    finish_slot(
        piece.slot, FinishReason::kFailed,
        "the model's logits for the prompt hold a NaN or an infinity, so they give no log-probabilities; "
        "the model file may be damaged or its numbers out of range");
    return;
  }
  if (sequence.n_pending() > 0) return;
  if (was_prefilling && sequence.n_generated() == 0) {
    sequence.prefilled_at = Clock::now();
    if (sequence.request.max_tokens > 0)
      figures_.first_token_seconds.add(seconds(sequence.prefilled_at - sequence.accepted_at));
  }
  if (sequence.request.max_tokens == 0) {
    finish_slot(piece.slot, FinishReason::kLength);
  } else {
    const auto n_rows = static_cast<size_t>(piece.n_drafted) + 1;
    choose_tokens(piece, logits.last(n_rows * static_cast<size_t>(limits_.n_vocab)));
  }
}

void Engine::finish_embedded_piece(const StepPiece& piece, std::span<const float> hidden) {
  Sequence& sequence = *scheduler_.slots()[static_cast<size_t>(piece.slot)];
  advance(piece.slot, piece.n_tokens);
  sequence.pooled->add(hidden);
  if (sequence.prefilling()) return;
  sequence.prefilled_at = Clock::now();
  std::optional<std::vector<float>> values = sequence.pooled->unit_vector();
  if (!values) {
    finish_slot(
        piece.slot, FinishReason::kFailed,
        "the model's hidden states hold a NaN or an infinity, so they give no embedding; the model file may "
        "be damaged or its numbers out of range");
    return;
  }
  sequence.stream->push({.sequence = sequence.index, .what = EmbeddingEvent{*std::move(values)}});
  finish_slot(piece.slot, FinishReason::kStop);
}

// Publishes the rows of a scored prompt's piece: row r belongs to the token after the piece's r-th. Returns
// false if a row is no distribution.
bool Engine::publish_prompt_logprobs(const StepPiece& piece, std::span<const float> logits) {
  const Sequence& sequence = *scheduler_.slots()[static_cast<size_t>(piece.slot)];
  const size_t n_vocab = static_cast<size_t>(limits_.n_vocab);
  const size_t first = static_cast<size_t>(piece.begin + piece.first_row) + 1;
  const size_t n_known =
      static_cast<size_t>(sequence.n_prompt) - first;  // the last row's successor is not known yet
  PromptEvent event;
  for (size_t row = 0; row < std::min(static_cast<size_t>(piece.n_rows), n_known); ++row) {
    TokenEvent& token = event.tokens.emplace_back();
    token.token = sequence.tokens[first + row];
    const std::span<const float> logits_of_row = logits.subspan(row * n_vocab, n_vocab);
    if (!add_logprobs(logits_of_row, sequence.request.n_top_logprobs, token, top_ids_)) return false;
  }
  if (!event.tokens.empty()) sequence.stream->push({.sequence = sequence.index, .what = std::move(event)});
  return true;
}

// Chooses the token after the sequence's last one and, as long as the chosen tokens equal the drafted ones,
// those after the draft tokens. logits [piece.n_drafted + 1, n_vocab]: rows of the last known token and of
// the draft tokens.
void Engine::choose_tokens(const StepPiece& piece, std::span<const float> logits) {
  Sequence& sequence = *scheduler_.slots()[static_cast<size_t>(piece.slot)];
  const size_t n_vocab = static_cast<size_t>(limits_.n_vocab);
  count_drafts(sequence, piece.n_drafted, 0);
  int n_accepted = 0;
  for (;;) {
    if (!choose_token(piece.slot, logits.subspan(static_cast<size_t>(n_accepted) * n_vocab, n_vocab))) return;
    const int n_more = n_confirmed(sequence, piece.n_drafted) - n_accepted;
    if (n_more <= 0) break;
    advance(piece.slot, n_more);
    n_accepted += n_more;
    count_drafts(sequence, 0, n_more);
    if (sequence.n_pending() > 0 || sequence.stream->cancelled(sequence.index)) break;
  }
  speculation_.learn(sequence);
}

void Engine::count_drafts(Sequence& sequence, int n_drafted, int n_accepted) {
  n_drafted_tokens_.fetch_add(static_cast<uint64_t>(n_drafted), std::memory_order_relaxed);
  n_accepted_tokens_.fetch_add(static_cast<uint64_t>(n_accepted), std::memory_order_relaxed);
  DraftCounts& counts = sequence.draft_counts;
  counts.n_drafted += n_drafted;
  counts.n_accepted += n_accepted;
  if (!sequence.drafts.in_prediction) return;
  counts.n_predicted += n_drafted;
  counts.n_foreseen += n_accepted;
}

// Returns how many of the first n_drafted draft tokens were chosen.
int Engine::n_confirmed(const Sequence& sequence, int n_drafted) const {
  const SequenceDrafts& drafts = sequence.drafts;
  int n = 0;
  for (size_t at = drafts.n_sequence_tokens; at < sequence.tokens.size() && n < n_drafted; ++at, ++n) {
    if (sequence.tokens[at] != drafts.tokens()[static_cast<size_t>(n)]) break;
  }
  return n;
}

// Returns false if the sequence has ended.
bool Engine::choose_token(int slot, std::span<const float> row) {
  try {
    const std::optional<FinishReason> end = generate(*scheduler_.slots()[static_cast<size_t>(slot)], row);
    if (!end) return true;
    finish_slot(slot, *end);
  } catch (const GenerationError& error) {
    finish_slot(slot, error.reason(), error.what());
  } catch (const ConstraintError& error) {
    finish_slot(slot, FinishReason::kUnsatisfiable, error.what());
  }
  return false;
}

// Chooses the sequence's next token and adds those that its constraint then forces. Returns the finish reason
// if the sequence has ended.
std::optional<FinishReason> Engine::generate(Sequence& sequence, std::span<const float> row) {
  const SequenceRequest& request = sequence.request;
  const bool may_end = sequence.n_generated() >= request.min_tokens;
  const SampleResult result =
      sampler_.sample({.logits = row,
                       .params = request.sampling,
                       .tokens = sequence.tokens,
                       .n_prompt = sequence.n_prompt,
                       .allowed = allowed_tokens(sequence),
                       .banned = may_end ? std::span<const int32_t>{} : request.end_tokens,
                       .state = sequence.sampler_state});
  if (!result.error.empty()) {
    throw GenerationError(result.is_unsatisfiable ? FinishReason::kUnsatisfiable : FinishReason::kFailed,
                          result.error);
  }
  if (std::ranges::find(request.end_tokens, result.token) != request.end_tokens.end())
    return FinishReason::kStop;
  publish_token(sequence, result.token, row);
  if (sequence.constraint) publish_forced(sequence);
  if (sequence.constraint && sequence.constraint->must_end()) return FinishReason::kStop;
  if (sequence.n_generated() == request.max_tokens) return FinishReason::kLength;
  return std::nullopt;
}

// Returns the tokens that the sequence's constraint allows next, plus the end tokens if its text may end
// here. Null: no constraint.
const TokenMask* Engine::allowed_tokens(Sequence& sequence) {
  if (!sequence.constraint) return nullptr;
  const TokenMask& mask = sequence.constraint->mask();
  if (!sequence.constraint->may_end()) return &mask;
  allowed_ = mask;
  for (const int32_t token : sequence.request.end_tokens) allowed_.allow(token);
  return &allowed_;
}

// Appends a token and tells the client. row: the logits it was chosen from; empty if it was forced.
void Engine::publish_token(Sequence& sequence, int32_t token, std::span<const float> row) {
  TokenEvent event{.token = token, .logprob = 0.0f, .top = {}};
  const int n_top = sequence.request.n_top_logprobs;
  // Cannot fail: the sampler has rejected rows that are no distribution.
  if (n_top >= 0 && !row.empty()) add_logprobs(row, n_top, event, top_ids_);
  if (sequence.constraint && !sequence.constraint->accept(token))
    throw GenerationError(
        FinishReason::kFailed,
        "the constraint's mask offered a token that it then refused; this is a fault of the server");
  sequence.tokens.push_back(token);
  n_generated_tokens_.fetch_add(1, std::memory_order_relaxed);
  sequence.stream->push({.sequence = sequence.index, .what = std::move(event)});
}

// Appends the tokens of text that the constraint forces; one step of the model computes them together.
// Nothing is forced if log-probabilities are requested (they need a row of logits per token) or with a
// logit_bias (it decides which tokens spell a text): then tokens are chosen one by one from masks that leave
// only one text. A token that ends the answer is also chosen that way.
void Engine::publish_forced(Sequence& sequence) {
  const SequenceRequest& request = sequence.request;
  if (request.n_top_logprobs >= 0 || !request.sampling.logit_bias.empty()) return;
  for (const int32_t token : forced_tokens(*sequence.constraint)) {
    if (sequence.n_generated() == request.max_tokens) return;
    if (std::ranges::find(request.end_tokens, token) != request.end_tokens.end()) return;
    publish_token(sequence, token, {});
  }
}

void Engine::finish_slot(int slot, FinishReason reason, std::string error) {
  // If the logits are NaN, the keys and values behind them may be wrong: no other prompt may reuse them.
  const std::unique_ptr<Sequence> sequence = scheduler_.remove(slot, reason != FinishReason::kFailed);
  FinishedEvent event = finished_event(*sequence, reason, std::move(error));
  if (reason != FinishReason::kFailed) service_time_.add(event.prefill_seconds + event.decode_seconds);
  count_finished(event);
  queue_.slot_freed();  // before the event: a client that reads it may rely on the free slot
  sequence->stream->push({.sequence = sequence->index, .what = std::move(event)});
}

void Engine::finish_waiting(std::unique_ptr<Sequence> sequence, FinishReason reason,
                            const std::string& error) {
  FinishedEvent event = finished_event(*sequence, reason, error);
  count_finished(event);
  queue_.abandoned(sequence->request_id);
  sequence->stream->push({.sequence = sequence->index, .what = std::move(event)});
}

void Engine::count_finished(const FinishedEvent& event) {
  ++figures_.n_finished[static_cast<size_t>(event.reason)];
  if (event.n_generated_tokens > 1)
    figures_.seconds_per_token.add(event.decode_seconds / (event.n_generated_tokens - 1));
}

void Engine::finish_everything(FinishReason reason, const std::string& error) {
  for (int slot = 0; slot < options_.n_slots; ++slot) {
    if (scheduler_.slots()[static_cast<size_t>(slot)]) finish_slot(slot, reason, error);
  }
  for (std::unique_ptr<Sequence>& sequence :
       scheduler_.remove_waiting([](const Sequence&) { return true; })) {
    finish_waiting(std::move(sequence), reason, error);
  }
}

void Engine::fail(const std::string& why) {
  failure_ = why;
  failed_ = true;
  queue_.close();  // everything accepted so far is in the queue, and nothing is added later
  take_new();
  finish_everything(FinishReason::kFailed, "the engine has stopped because of an error: " + why);
}

}  // namespace hearth
