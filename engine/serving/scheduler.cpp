// Admits sequences to slots and chooses the tokens of a step. The rules and their reasons are in the header.
#include "engine/serving/scheduler.h"

#include <algorithm>
#include <cassert>
#include <utility>

namespace hearth {
namespace {

// Whether the hidden state of the token at this position is pooled.
bool is_pooled(Pooling pooling, int position, int n_prompt) {
  switch (pooling) {
    case Pooling::kMean:
      return true;
    case Pooling::kFirst:
      return position == 0;
    case Pooling::kLast:
      break;
  }
  return position == n_prompt - 1;
}

// Whether a step must output a row for the token at this position: its logits, or its hidden state if the
// sequence is embedded.
bool wants_row(const Sequence& sequence, int position) {
  if (sequence.request.embedding) return is_pooled(*sequence.request.embedding, position, sequence.n_prompt);
  if (position < sequence.n_prompt - 1) return sequence.request.prompt_logprobs;
  return sequence.request.max_tokens > 0 && static_cast<size_t>(position) + 1 == sequence.tokens.size();
}

// The maximum number of positions that the sequence can ever use.
int most_positions(const Sequence& sequence) { return sequence.n_prompt + sequence.request.max_tokens; }

// The number of positions that the sequence is promised at admission.
int first_promise(const Sequence& sequence, int promise_tokens) {
  if (sequence.was_set_back || sequence.request.computes_whole_prompt()) return most_positions(sequence);
  return std::min(most_positions(sequence), static_cast<int>(sequence.tokens.size()) + promise_tokens);
}

}  // namespace

Scheduler::Scheduler(SchedulerLimits limits, KvBlocks& blocks) : limits_(limits), blocks_(blocks) {
  assert(limits.n_slots > 0 && limits.prefill_chunk > 0 && limits.promise_tokens > 0);
  assert(limits.max_tokens >= limits.n_slots && limits.max_logit_rows >= limits.n_slots);
  const size_t n = static_cast<size_t>(limits.n_slots);
  slots_.resize(n);
  pieces_.reserve(n);
  prompts_.reserve(n);
  by_admission_.reserve(n);
}

void Scheduler::add(std::unique_ptr<Sequence> sequence) { waiting_.add(std::move(sequence)); }

int Scheduler::admit(const std::function<void(Sequence&, int slot)>& on_admitted) {
  int n_admitted = 0;
  for (;;) {
    const int slot = free_slot();
    if (slot < 0) break;
    Sequence* const next = waiting_.next(slots_, [this](const Sequence& s) { return held_back(s); });
    if (next == nullptr) break;
    Sequence& sequence = *next;
    const bool reuse = limits_.reuses_prefixes && !sequence.request.computes_whole_prompt();
    const int n_positions = first_promise(sequence, limits_.promise_tokens);
    const std::optional<int> n_cached = blocks_.reserve(slot, sequence.tokens, n_positions, reuse);
    if (!n_cached) break;
    sequence.n_computed = *n_cached;
    if (!sequence.was_set_back) {
      sequence.n_cached = *n_cached;
      sequence.n_matched = blocks_.n_matched(slot);
    }
    sequence.admission = n_admitted_++;
    slots_[static_cast<size_t>(slot)] = waiting_.take(sequence);
    ++n_running_;
    ++n_admitted;
    on_admitted(sequence, slot);
  }
  return n_admitted;
}

void Scheduler::extend_promises(const std::function<void(Sequence&)>& on_set_back) {
  by_admission_.clear();
  for (int slot = 0; slot < limits_.n_slots; ++slot) {
    if (slots_[static_cast<size_t>(slot)]) by_admission_.push_back(slot);
  }
  std::ranges::sort(by_admission_, {},
                    [&](int slot) { return slots_[static_cast<size_t>(slot)]->admission; });
  for (const int slot : by_admission_) {
    while (slots_[static_cast<size_t>(slot)] && !promise(slot)) {
      const int last = last_without_whole_promise();  // may be this slot itself
      on_set_back(set_back(last));
    }
  }
}

// Promises KV blocks to the sequence in this slot for all its known tokens, and for its draft tokens as far
// as KV blocks are left. Shortens the draft if they do not suffice. Returns false if not enough KV blocks can
// be promised now for the known tokens.
bool Scheduler::promise(int slot) {
  Sequence& sequence = *slots_[static_cast<size_t>(slot)];
  const int n_known = static_cast<int>(sequence.tokens.size());
  const int n_wanted = n_known + sequence.drafts.n_wanted;
  const int n_promised = blocks_.n_promised_positions(slot);
  if (n_wanted <= n_promised) return true;
  const int more = std::min(most_positions(sequence), n_wanted + limits_.promise_tokens);
  if (blocks_.promise_more(slot, more) || blocks_.promise_more(slot, n_wanted)) return true;
  if (n_known > n_promised && !blocks_.promise_more(slot, n_known)) return false;
  sequence.drafts.n_wanted = blocks_.n_promised_positions(slot) - n_known;
  return true;
}

// Returns the slot of the most recently admitted sequence that may need more KV blocks than it is promised;
// -1 if there is none.
int Scheduler::last_without_whole_promise() const {
  int last = -1;
  for (int slot = 0; slot < limits_.n_slots; ++slot) {
    const Sequence* const sequence = slots_[static_cast<size_t>(slot)].get();
    if (!sequence || blocks_.n_promised_positions(slot) >= most_positions(*sequence)) continue;
    if (last < 0 || sequence->admission > slots_[static_cast<size_t>(last)]->admission) last = slot;
  }
  return last;
}

// Takes the slot from a sequence and puts the sequence ahead of all waiting ones. The prefix cache keeps the
// sequence's full KV blocks until their memory is needed.
Sequence& Scheduler::set_back(int slot) {
  std::unique_ptr<Sequence> sequence = remove(slot, true);
  sequence->was_set_back = true;
  sequence->awaits_disk = false;
  sequence->n_computed = 0;
  sequence->drafts.looked_up.tokens.clear();
  sequence->drafts.modeled.tokens.clear();
  sequence->drafts.n_wanted = 0;
  Sequence& waits = *sequence;
  waiting_.add_first(std::move(sequence));
  return waits;
}

std::span<const StepPiece> Scheduler::next_step() {
  pieces_.clear();
  Budget step{.tokens = limits_.max_tokens, .rows = limits_.max_logit_rows};
  take_decode(step);
  step.tokens = std::min(step.tokens, pieces_.empty() ? limits_.prefill_chunk : beside_tokens());
  take_forced(step);
  take_drafts(step);
  take_prefill(step);
  for (const StepPiece& piece : pieces_) blocks_.extend(piece.slot, piece.begin + piece.n_tokens);
  return pieces_;
}

void Scheduler::computed(int slot, int n_tokens) {
  Sequence& sequence = *slots_[static_cast<size_t>(slot)];
  assert(n_tokens <= sequence.n_pending());
  sequence.n_computed += n_tokens;
  if (sequence.request.embedding) {  // embeddings put nothing into the prefix cache
    blocks_.move_on(slot, sequence.n_computed);
    return;
  }
  const int n_kept =
      keeps_generated_ ? sequence.n_computed : std::min(sequence.n_computed, sequence.n_prompt);
  blocks_.commit(slot, std::span(sequence.tokens).first(static_cast<size_t>(n_kept)));
  blocks_.move_on(slot, sequence.n_computed);
}

bool Scheduler::has_work() const {
  return std::ranges::any_of(slots_, [](const std::unique_ptr<Sequence>& s) { return s && !s->awaits_disk; });
}

std::unique_ptr<Sequence> Scheduler::remove(int slot, bool keep_blocks) {
  assert(slots_[static_cast<size_t>(slot)]);
  blocks_.release(slot, keep_blocks);
  --n_running_;
  return std::move(slots_[static_cast<size_t>(slot)]);
}

std::vector<std::unique_ptr<Sequence>> Scheduler::remove_waiting(
    const std::function<bool(const Sequence&)>& which) {
  return waiting_.remove(which);
}

// Whether another sequence of the request is computing KV blocks that this sequence can later take from the
// prefix cache. Waiting for these KV blocks costs less than computing them again.
bool Scheduler::held_back(const Sequence& sequence) const {
  const int n_reusable = (sequence.n_prompt - 1) / blocks_.block_tokens() * blocks_.block_tokens();
  if (n_reusable == 0 || sequence.request.computes_whole_prompt()) return false;
  return std::ranges::any_of(slots_, [&](const std::unique_ptr<Sequence>& other) {
    return other && other->request_id == sequence.request_id &&
           other->prompt_group == sequence.prompt_group && other->n_computed < n_reusable;
  });
}

int Scheduler::free_slot() const {
  if (n_running_ == limits_.n_slots) return -1;
  return static_cast<int>(std::find(slots_.begin(), slots_.end(), nullptr) - slots_.begin());
}

void Scheduler::take_decode(Budget& step) {
  for (int slot = 0; slot < limits_.n_slots; ++slot) {
    const Sequence* const sequence = slots_[static_cast<size_t>(slot)].get();
    if (!sequence || sequence->prefilling()) continue;
    assert(sequence->n_pending() >= 1 && !sequence->awaits_disk);
    StepPiece piece{.slot = slot, .begin = sequence->n_computed, .n_tokens = 0, .first_row = 0, .n_rows = 0};
    Budget one{.tokens = 1, .rows = 1};
    grow(piece, one);
    pieces_.push_back(piece);
    --step.tokens;
    // Reserve a logit row even if the piece ends before the sequence's last token: take_forced() may extend
    // the piece to that token, which needs a logit row.
    --step.rows;
  }
}

// Extends the pieces of decoding sequences by forced tokens, lowest slot first.
void Scheduler::take_forced(Budget& step) {
  Budget forced{.tokens = step.tokens / 2, .rows = 0};
  const int given = forced.tokens;
  for (StepPiece& piece : pieces_) {
    forced.rows = 1 - piece.n_rows;
    grow(piece, forced);
  }
  step.tokens -= given - forced.tokens;
}

// Appends the wanted draft tokens to each piece that ends with the last known token of its sequence.
void Scheduler::take_drafts(Budget& step) {
  for (StepPiece& piece : pieces_) {
    const Sequence& sequence = *slots_[static_cast<size_t>(piece.slot)];
    if (static_cast<size_t>(piece.begin + piece.n_tokens) < sequence.tokens.size()) continue;
    piece.n_drafted = std::max(0, std::min({sequence.drafts.n_wanted, step.tokens, step.rows}));
    piece.n_tokens += piece.n_drafted;
    piece.n_rows += piece.n_drafted;
    step.tokens -= piece.n_drafted;
    step.rows -= piece.n_drafted;
  }
}

int Scheduler::beside_tokens() const {
  return limits_.prefill_beside > 0 ? limits_.prefill_beside : limits_.prefill_chunk;
}

int Scheduler::room_for_drafts() const {
  return std::min({beside_tokens(), limits_.max_tokens - n_running_, limits_.max_logit_rows - n_running_});
}

void Scheduler::take_prefill(Budget step) {
  prompts_.clear();
  for (int slot = 0; slot < limits_.n_slots; ++slot) {
    const Sequence* const sequence = slots_[static_cast<size_t>(slot)].get();
    if (!sequence || !sequence->prefilling() || sequence->awaits_disk) continue;
    prompts_.push_back(
        {.slot = slot, .begin = sequence->n_computed, .n_tokens = 0, .first_row = 0, .n_rows = 0});
  }
  if (prompts_.empty()) return;
  if (limits_.whole_prompts) return take_whole_prompts(step);

  const auto admission = [&](const StepPiece& p) { return slots_[static_cast<size_t>(p.slot)]->admission; };
  const auto n_left = [&](const StepPiece& p) {
    return slots_[static_cast<size_t>(p.slot)]->n_prompt - p.begin - p.n_tokens;
  };

  // 1. Give half of the step to the prompt that was admitted first.
  Budget half{.tokens = (step.tokens + 1) / 2, .rows = (step.rows + 1) / 2};
  const Budget given = half;
  grow(*std::ranges::min_element(prompts_, {}, admission), half);
  step.tokens -= given.tokens - half.tokens;
  step.rows -= given.rows - half.rows;

  // 2. Give the rest of the step to the prompts with the fewest tokens left.
  std::ranges::sort(prompts_, [&](const StepPiece& a, const StepPiece& b) {
    return n_left(a) != n_left(b) ? n_left(a) < n_left(b) : admission(a) < admission(b);
  });
  for (StepPiece& prompt : prompts_) {
    grow(prompt, step);
    if (prompt.n_tokens > 0) pieces_.push_back(prompt);
  }
}

// The oldest prompt always fits, because a step can hold the longest prompt. So no prompt waits forever.
void Scheduler::take_whole_prompts(Budget step) {
  std::ranges::sort(prompts_, {},
                    [&](const StepPiece& p) { return slots_[static_cast<size_t>(p.slot)]->admission; });
  for (StepPiece& prompt : prompts_) {
    if (slots_[static_cast<size_t>(prompt.slot)]->n_pending() > step.tokens) continue;
    grow(prompt, step);
    pieces_.push_back(prompt);
  }
}

// Extends a piece by as many known tokens as are left and as the budget allows. Deducts them from the budget.
void Scheduler::grow(StepPiece& piece, Budget& budget) const {
  const Sequence& sequence = *slots_[static_cast<size_t>(piece.slot)];
  for (int at = piece.begin + piece.n_tokens;
       at < static_cast<int>(sequence.tokens.size()) && budget.tokens > 0; ++at) {
    const int rows = wants_row(sequence, at) ? 1 : 0;
    const int logit_rows = sequence.request.embedding ? 0 : rows;
    if (logit_rows > budget.rows) break;
    if (rows > 0 && piece.n_rows == 0) piece.first_row = piece.n_tokens;
    ++piece.n_tokens;
    piece.n_rows += rows;
    --budget.tokens;
    budget.rows -= logit_rows;
  }
}

}  // namespace hearth
