// Decides which sequences get slots and which tokens enter the next step. Pure logic: no model, no threads,
// no clock.
//
// Admission. waiting_list.h decides which sequence gets a free slot: slots are shared among clients, and
// among the requests of a client. Two more rules apply:
//   - A sequence is skipped while another sequence of its request computes the same prompt. Other sequences
//     may be admitted meanwhile. Afterward the skipped sequence finds the KV blocks in the prefix cache.
//   - If the KV blocks do not suffice for the next sequence in turn, all others wait too. Otherwise small
//     sequences could starve a large one.
//
// Promises. At admission, a sequence is promised KV blocks for its prompt and for the next promise_tokens
// generated tokens (or max_tokens if that is less). When these are used up, the sequence is promised KV
// blocks for more tokens. If a chat request has no length limit, its max_tokens is as large as the context
// allows. Few answers are that long, so the pool of KV blocks may be smaller than the contexts of all slots
// together. If no more KV blocks can be promised, a sequence is set back: it loses its slot and waits ahead
// of all others. This is the most recently admitted sequence that is not promised all KV blocks that it can
// need. On readmission it is promised all KV blocks that it can need, recomputes the positions that the
// prefix cache has lost, and continues with the same tokens. So a sequence is set back at most once, an older
// sequence is never set back for a newer one, and all sequences end.
//
// Steps. A step has one token of every decoding sequence and at most one chunk of prompt tokens, so a long
// prompt slows decoding but never stops it. On machines where a full chunk takes much longer than a short
// one, the chunk is shorter while sequences decode (engine/prompt_step.h). If a constraint forces several
// tokens of a decoding sequence at once, the step includes several of them, up to half a chunk for all
// sequences together. Draft tokens (speculation.h) follow the tokens of their sequence. They use the room
// left in the step, which is sized for a chunk. Nothing is drafted while a prompt is computed.
//
// Half of the room for prompt tokens goes to the prompt that was admitted first. The rest goes to the prompts
// with the fewest tokens left, so short prompts overtake long ones; no other order has a lower mean time to
// the first token. The first half limits how long a long prompt is delayed: the oldest prompt gets half of
// every chunk, and every prompt eventually becomes the oldest. So there is no aging constant to tune.
//
// If prompts must not be cut (encoders), a step takes the oldest prompt whole and adds the other prompts that
// fit.
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

/// The tokens [begin, begin + n_tokens) of one sequence in a step. The step outputs rows for the tokens
/// [first_row, first_row + n_rows) of the piece. If the sequence generates, the piece has one row of logits
/// if it ends with the last known token, from which the next token is sampled, and otherwise no rows. If the
/// prompt is scored, there are also logits for every prompt token except the last. If the sequence is
/// embedded, the rows are hidden states of the pooled tokens. The last n_drafted tokens of the piece are
/// drafts that the sequence does not have yet; all of them need logits.
struct StepPiece {
  int slot = 0;
  int begin = 0;
  int n_tokens = 0;
  int first_row = 0;
  int n_rows = 0;
  int n_drafted = 0;
};

/// Generated tokens per promise of KV blocks. The number is small compared with a context, so that a pool for
/// one context can run several short sequences. It is large compared with a step, so that promises rarely
/// change.
inline constexpr int kPromiseTokens = 256;

struct SchedulerLimits {
  int n_slots = 0;
  int prefill_chunk = 0;  // maximum number of prompt tokens in a step
  // Maximum number of prompt tokens in a step with decoding sequences; 0: prefill_chunk.
  int prefill_beside = 0;
  int max_tokens = 0;      // maximum number of tokens in a step; >= n_slots
  int max_logit_rows = 0;  // maximum number of logit rows in a step; >= n_slots
  // Prompts are never split between steps, so prefill_chunk must be at least the length of the longest one.
  bool whole_prompts = false;
  int promise_tokens = kPromiseTokens;
  // A sequence may begin with the KV blocks of an earlier one that has the same prefix.
  bool reuses_prefixes = true;
};

class Scheduler {
 public:
  /// `blocks` must outlive the scheduler, and nothing else may use them.
  Scheduler(SchedulerLimits limits, KvBlocks& blocks);

  /// Queues a sequence behind all others.
  void add(std::unique_ptr<Sequence> sequence);

  /// Puts waiting sequences into free slots as long as KV blocks can be promised to them. Calls on_admitted
  /// for each admitted sequence, and returns the number of admitted sequences.
  int admit(const std::function<void(Sequence&, int slot)>& on_admitted);

  /// Promises every running sequence the KV blocks for its known tokens, and for its draft tokens if enough
  /// KV blocks are left. If the KV blocks do not suffice, sets sequences back and calls on_set_back for each
  /// of these. Call it before next_step(), once drafts are known.
  void extend_promises(const std::function<void(Sequence&)>& on_set_back);

  /// Returns the pieces of the next step: decoding sequences in slot order, then prompts; each slot at most
  /// once. The block tables cover the positions of the pieces. Empty if and only if !has_work(). Valid until
  /// the next call.
  std::span<const StepPiece> next_step();

  /// Reports that the next n_tokens tokens of a slot's sequence were computed: advances the sequence and
  /// hands its full KV blocks to the prefix cache. Include draft tokens only if the sequence has accepted
  /// them; the keys and values of rejected draft tokens will be overwritten.
  void computed(int slot, int n_tokens);
  /// Takes the slot from a sequence, which then waits ahead of all others.
  Sequence& set_back(int slot);
  /// Sets whether the prefix cache also gets KV blocks with generated tokens (the default) or only KV blocks
  /// of prompts. With StepLimits::fast_prompts, different code computes the keys and values of prompt tokens
  /// and of generated tokens, so a later prompt must not reuse the keys and values of generated tokens. Call
  /// this while nothing runs.
  void keep_generated(bool keep) { keeps_generated_ = keep; }
  bool keeps_generated() const { return keeps_generated_; }

  /// Returns how many draft tokens fit into the next step, given the sequences that decode now.
  int room_for_drafts() const;

  /// Removes a sequence from its slot and releases its KV blocks. keep_blocks: see KvBlocks::release.
  std::unique_ptr<Sequence> remove(int slot, bool keep_blocks);

  /// Removes the waiting sequences for which `which` is true, and returns them in order.
  std::vector<std::unique_ptr<Sequence>> remove_waiting(const std::function<bool(const Sequence&)>& which);

  /// [n_slots]; null where a slot is free.
  std::span<const std::unique_ptr<Sequence>> slots() const { return slots_; }
  bool idle() const { return n_running_ == 0 && waiting_.empty(); }
  int n_running() const { return n_running_; }
  /// Whether a step has anything to compute: a sequence runs that does not wait for the disk.
  bool has_work() const;
  int n_waiting() const { return waiting_.size(); }

 private:
  struct Budget {
    int tokens = 0;
    int rows = 0;
  };

  bool promise(int slot);
  int last_without_whole_promise() const;
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
  std::vector<StepPiece> pieces_;                 // pieces of the next step
  std::vector<StepPiece> prompts_;                // scratch of take_prefill
  std::vector<int> by_admission_;                 // scratch of extend_promises
  int n_running_ = 0;
  uint64_t n_admitted_ = 0;
  bool keeps_generated_ = true;
};

}  // namespace hearth
