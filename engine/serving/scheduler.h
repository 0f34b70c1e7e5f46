// Decides which sequences get slots and which tokens enter the next step. Pure logic: no model, no threads,
// no clock.
//
// Admission. waiting_list.h decides which sequence gets a free slot: slots are shared among clients, and
// among the requests of a client. Two more rules apply:
//   - A sequence is skipped while another sequence of its request computes the same prompt. Others may be
//     admitted meanwhile. Afterward the skipped sequence finds the KV blocks in the prefix cache.
//   - If the KV blocks do not suffice for the next sequence in turn, all others wait too. Otherwise small
//     sequences would starve it.
//
// Promises. A sequence is promised KV blocks for its prompt and for the next promise_tokens generated tokens
// (or max_tokens if that is less), and gets a new promise when it reaches that point. A chat that names no
// length has the rest of the context as max_tokens, but few answers are that long, so the pool of KV blocks
// may be smaller than the contexts of all slots. If no more can be promised, the most recently admitted
// sequence without a full promise is set back: it loses its slot and waits ahead of all others. On
// readmission it is promised everything it can need, recomputes what the prefix cache has lost, and continues
// with the same tokens. So a sequence is set back at most once, an older sequence is never set back for a
// newer one, and all sequences end.
//
// Steps. A step has one token of every decoding sequence and at most one chunk of prompt tokens, so a long
// prompt slows decoding but never stops it. Where a full chunk takes much longer than a short one, the chunk
// is shorter while sequences decode (engine/prompt_step.h). If a constraint forces several tokens of a
// decoding sequence at once, the step includes more of them, up to half a chunk. Draft tokens (speculation.h)
// follow the tokens of their sequence; they use the room left in the step, which is sized for a chunk, and
// are only wanted when no prompt waits.
//
// Half of the remaining room goes to the prompt that was admitted first. The rest goes to the prompts with
// the fewest tokens left, so short prompts overtake long ones; no other order has a lower mean time to the
// first token. The first half bounds the cost for a long prompt: the oldest prompt gets half of every chunk,
// and every prompt eventually becomes the oldest. So no aging constant needs tuning.
//
// If prompts must not be cut (encoders), a step takes the oldest prompt whole and adds those other prompts
// that fit.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "engine/kv/kv_blocks.h"
#include "engine/serving/sequence.h"
#include "engine/serving/waiting_list.h"

namespace hearth {

/// The tokens [begin, begin + n_tokens) of one sequence in a step. Logits are needed for the piece's tokens
/// [first_row, first_row + n_rows): the last one if a token is sampled next; all tokens that a prompt token
/// follows if the prompt is scored; none in the middle of other prompts. If the sequence is embedded, these
/// are the pooled tokens, whose hidden states are needed. The last n_drafted tokens are drafts that the
/// sequence does not have yet; logits are needed for all of them.
struct StepPiece {
  int slot = 0;
  int begin = 0;
  int n_tokens = 0;
  int first_row = 0;
  int n_rows = 0;
  int n_drafted = 0;
};

/// Generated tokens per promise of KV blocks. Small compared with a context, so that a pool for one context
/// runs several short sequences; large compared with a step, so that promises rarely change.
inline constexpr int kPromiseTokens = 256;

struct SchedulerLimits {
  int n_slots = 0;
  int prefill_chunk = 0;       // most prompt tokens in a step
  int prefill_beside = 0;      // most prompt tokens in a step with decoding sequences; 0: prefill_chunk
  int max_tokens = 0;          // most tokens in a step; >= n_slots
  int max_logit_rows = 0;      // most logit rows in a step; >= n_slots
  bool whole_prompts = false;  // prompts are never cut; then prefill_chunk must hold the longest prompt
  int promise_tokens = kPromiseTokens;
};

class Scheduler {
 public:
  /// `blocks` must outlive the scheduler, and nothing else may use them.
  Scheduler(SchedulerLimits limits, KvBlocks& blocks);

  /// Queues a sequence behind all others.
  void add(std::unique_ptr<Sequence> sequence);

  /// Puts waiting sequences into free slots as long as their KV blocks can be promised. Calls on_admitted for
  /// each. Returns the number of admitted sequences.
  int admit(const std::function<void(Sequence&)>& on_admitted);

  /// Promises every running sequence the KV blocks for its known tokens, and for its draft tokens if there
  /// are enough. May set sequences back for that; calls on_set_back for each. Call it before next_step(),
  /// once drafts are known.
  void extend_promises(const std::function<void(Sequence&)>& on_set_back);

  /// Returns the next step's pieces: decoding sequences in slot order, then prompts; each slot at most once.
  /// The block tables cover them. Empty if and only if no sequence runs. Valid until the next call.
  std::span<const StepPiece> next_step();

  /// Reports that the next n_tokens of a slot's sequence were computed: advances it and hands full KV blocks
  /// to the prefix cache. Report draft tokens only once the sequence has accepted them; the others are
  /// overwritten.
  void computed(int slot, int n_tokens);
  /// Whether the prefix cache also gets KV blocks with generated tokens (the default) or only those of
  /// prompts. With StepLimits::fast_prompts, keys and values of prompts are computed differently, so those
  /// of a generated token are not the ones that it would have in a later prompt. Call it while nothing runs.
  void keep_generated(bool keep) { keeps_generated_ = keep; }

  /// Draft tokens that the next step has room for, given the sequences that decode now.
  int room_for_drafts() const;

  /// Removes a sequence from its slot and releases its KV blocks. keep_blocks: see KvBlocks::release.
  std::unique_ptr<Sequence> remove(int slot, bool keep_blocks);

  /// Removes the waiting sequences for which `which` is true, and returns them in order.
  std::vector<std::unique_ptr<Sequence>> remove_waiting(const std::function<bool(const Sequence&)>& which);

  /// [n_slots]; null where a slot is free.
  std::span<const std::unique_ptr<Sequence>> slots() const { return slots_; }
  bool idle() const { return n_running_ == 0 && waiting_.empty(); }
  int n_running() const { return n_running_; }
  int n_waiting() const { return waiting_.size(); }

 private:
  struct Budget {
    int tokens = 0;
    int rows = 0;
  };

  bool promise(int slot);
  int last_without_whole_promise() const;
  Sequence& set_back(int slot);
  bool held_back(const Sequence& sequence) const;
  int free_slot() const;
  int beside_tokens() const;
  void take_decode(Budget& step);
  void take_forced(Budget& step);
  void take_drafts(Budget& step);
  void take_prefill(Budget step);
  void take_whole_prompts(Budget step);
  void grow(StepPiece& piece, Budget& budget) const;

  SchedulerLimits limits_;
  KvBlocks& blocks_;
  WaitingList waiting_;
  std::vector<std::unique_ptr<Sequence>> slots_;  // [n_slots]
  std::vector<StepPiece> pieces_;                 // of the next step
  std::vector<StepPiece> prompts_;                // scratch of take_prefill
  std::vector<int> by_admission_;                 // scratch of extend_promises
  int n_running_ = 0;
  uint64_t n_admitted_ = 0;
  bool keeps_generated_ = true;
};

}  // namespace hearth
