// Decides which sequences get slots, and which tokens enter the next step. Pure logic: no model, no threads, no
// clock.
//
// Admission. Whose turn it is when a slot is free says waiting_list.h: slots are shared out among clients, and among the
// requests of a client. Two more rules:
//   - While another sequence of its request computes the same prompt, a sequence is skipped. Others may be admitted
//     meanwhile. Afterwards it finds the KV blocks in the prefix cache.
//   - If the KV blocks do not suffice for the sequence whose turn it is, all others wait too. Otherwise small sequences
//     would starve it.
//
// Promises. A sequence is promised KV blocks for its prompt and for promise_tokens that it generates, or for max_tokens if
// those are fewer, and for more when it gets there. max_tokens of a chat that names no length is the rest of the context, and
// few answers are that long; so the pool of KV blocks may be smaller than all slots' contexts. If no more can be
// promised, the sequence that was admitted last among those without a whole promise is set back: it loses its slot, and
// waits before all others. Then it is promised all it can need, computes again what the prefix cache has lost, and goes on
// with the same tokens. So a sequence is set back once at most, the one admitted first never by a later one, and all end.
//
// Steps. A step has one token of every decoding sequence and at most one chunk of prompt tokens. So a long
// prompt slows decoding, but never stops it. Where a step of a whole chunk takes long and a short one does not, the chunk is
// shorter beside decoding sequences (engine/prompt_step.h). Where a constraint forces several tokens of a decoding sequence at once,
// the step has more of them, up to half a chunk. Drafted tokens (speculation.h) follow those of their sequence;
// they get what room the step has, which is made for a chunk, and are only wanted where no prompt waits. Half of
// the rest goes to the prompt that was admitted first. The rest goes to the prompts with the fewest tokens left, so
// that short prompts pass long ones; no other order has a lower mean time to the first token. The first half bounds
// what this costs a long prompt: the oldest prompt
// gets half of every chunk, and every prompt becomes the oldest in the end. So no ageing constant needs tuning.
//
// Where prompts must not be cut (encoders), a step has the oldest prompt whole, and of the others those that fit beside
// it.
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

/// The tokens [begin, begin + n_tokens) of one sequence in a step. Logits are wanted for the piece's tokens
/// [first_row, first_row + n_rows): the last one if a token is sampled next; if the prompt is scored, all that a
/// prompt token follows; none in the middle of other prompts. Of a sequence that is embedded, these are the tokens
/// whose hidden states are wanted: those that are pooled. The last n_drafted tokens are not the sequence's yet but drafted;
/// logits are wanted for all of them.
struct StepPiece {
  int slot = 0;
  int begin = 0;
  int n_tokens = 0;
  int first_row = 0;
  int n_rows = 0;
  int n_drafted = 0;
};

/// Tokens to generate that a sequence is promised KV blocks for, and again each time it gets there. Small beside a context,
/// so that a pool for one context runs several short sequences; large beside a step, so that promises rarely change.
inline constexpr int kPromiseTokens = 256;

struct SchedulerLimits {
  int n_slots = 0;
  int prefill_chunk = 0;       // most prompt tokens of a step
  int prefill_beside = 0;      // the same in a step with decoding sequences; 0: as many
  int max_tokens = 0;          // most tokens of a step; >= n_slots
  int max_logit_rows = 0;      // most logit rows of a step; >= n_slots
  bool whole_prompts = false;  // prompts are never cut; then prefill_chunk must hold the longest
  int promise_tokens = kPromiseTokens;
};

class Scheduler {
 public:
  /// `blocks` must outlive the scheduler, and nothing else may use them.
  Scheduler(SchedulerLimits limits, KvBlocks& blocks);

  /// Queues a sequence behind all others.
  void add(std::unique_ptr<Sequence> sequence);

  /// Puts waiting sequences into free slots, if the KV blocks suffice for what they are promised. Calls on_admitted for
  /// each sequence. Returns their number.
  int admit(const std::function<void(Sequence&)>& on_admitted);

  /// Promises every running sequence the KV blocks that its known tokens need, and its drafted ones if there are enough.
  /// Sequences may be set back for that; calls on_set_back for each. Call it before next_step(), when drafts are known.
  void extend_promises(const std::function<void(Sequence&)>& on_set_back);

  /// Returns the next step's pieces: decoding sequences in slot order, then prompts; each slot at most once. The
  /// block tables list the KV blocks for them. Empty if and only if no sequence runs. Valid until the next
  /// call.
  std::span<const StepPiece> next_step();

  /// Reports that the next n_tokens of a slot's sequence were computed: advances it and hands full KV blocks to the prefix
  /// cache. Drafted tokens are reported once they are the sequence's; what was computed for others is overwritten.
  void computed(int slot, int n_tokens);
  /// Whether the prefix cache gets KV blocks with generated tokens too (the default), or only those of prompts: where a
  /// prompt's keys and values are computed in another way (StepLimits::fast_prompts), a generated token's are not those that
  /// it would have in a later prompt. Call it while nothing runs.
  void keep_generated(bool keep) { keeps_generated_ = keep; }

  /// Drafted tokens that a step has room for beside what decodes now.
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
