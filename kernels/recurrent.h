// RecurrentOps: the operations of recurrent layers (gated delta nets, Mamba-2, short convolutions), and the
// layout of their memory.
//
// A recurrent layer has no KV cache. It keeps one state per sequence, which does not grow: the last n_taps -
// 1 inputs of a convolution (the tail), and in most kinds of layers a matrix for each head. The convolution
// is the sum over j of taps[j] * raw_(t - n_taps + 1 + j), channel by channel. Short convolutions
// (RecurrentKind::kShortConv) have nothing else. A gated delta net has for each value head a matrix S
// [n_rows() rows i, head_dim value columns c]. For each token, in this order (Yang, Kautz, Hatamizadeh 2024,
// "Gated Delta Networks"):
//
//   q, k, v   = parts of silu(the convolved channels)
//   decay     = e^(a * softplus(alpha + dt)), beta = sigmoid(beta's logit), for each value head
//   m_c       = sum over i of S[i][c] k[i]                        with the old S
//   u_c       = beta * (v_c - decay * m_c)
//   S[i][c]   = decay * S[i][c] + k[i] u_c
//   out_c     = sum over i of S[i][c] q[i]                        with the new S
//
// In Kimi's delta attention (Kimi Team 2025, "Kimi Linear"), each row of S has a decay of its own
// (RecurrentShape::row_decays), which multiplies the old S before it is read:
//
//   m_c       = sum over i of S[i][c] (decay_i k[i])              with the old S
//   u_c       = beta * (v_c - m_c)
//   S[i][c]   = decay_i * S[i][c] + k[i] u_c
//
// A layer of Mamba-2 (Dao, Gu 2024, "Transformers are SSMs") has the same memory, with other names for its
// parts: q is C, k is B, v is x, and a value head has the columns of x. It does not subtract what S already
// has for a key, and v has a way around the state:
//
//   step      = softplus(alpha + dt), decay = e^(a * step)
//   u_c       = step * v_c
//   S[i][c]   = decay * S[i][c] + k[i] u_c
//   out_c     = sum over i of S[i][c] q[i] + skip * v_c
//
// The engine's forward pass calls RecurrentOps through Backend::recurrent(). causal_conv() makes q, k and v;
// Backend::rms_norm() scales the heads of q and k; gated_delta() does the rest, or selective_scan() for
// Mamba-2. A short convolution needs causal_conv() only. A layer's memory is three arrays (RecurrentMemory),
// which the engine allocates.
//
// Drafts. The state cannot go back to an earlier token. So it is written after every certain token, but never
// after a draft: a draft works on a copy, and only what changes the state (k, u, decay, the raw row) goes to
// a log. The next step names the number of accepted drafts, and these are replayed from the log first.
// Rejecting drafts costs nothing. After a step without drafts, the state in memory is the state after all
// tokens, so a snapshot is a copy. This is the simplest rule. Writing the state only every 16 tokens, and
// logging all tokens between, would save up to half of the memory traffic of decoding; it would give the same
// bits, so it can replace this rule later. Rejected: copying the whole state before each draft, because a
// state has megabytes and a logged draft has kilobytes.
//
// Bits. All operations of a token are fixed: a convolution is a chain of fused multiply-adds from the oldest
// row on, to which the bias is added last; sums over rows i have four partial sums (row i goes to partial sum
// i mod 4, each in ascending order from +0.0 by fused multiply-adds), which are added as (p0 + p1) + (p2 +
// p3); m and out are such sums; u = beta * fma(-decay, m, v); S = fma(k, u, decay * S). In Mamba-2, u is the
// product of step and v, and out is fma(skip, v, sum). So the results do not depend on how a prompt was cut
// into steps, on other sequences of the step, on replays or on threads.
// All ISAs with fused multiply-adds give the same bits. A NaN stays in its sequence until a fresh run.
// Rounding errors do not grow much, because k has length 1 and decay and beta are at most 1: after 4,000
// tokens of a head that forgets almost nothing, S differs from doubles by 2e-6 of its largest element
// (recurrent_test bounds it by 4e-6). The keys of Mamba-2 have any length, but they do not multiply S, and
// decay is at most 1, so the same holds.
//
// Speed. A token of a sequence reads and writes the state once: 2 * state_bytes() per layer, which bounds
// decoding. A prompt is bound by arithmetic: 7 * head_dim^2 operations per token and value head, and 5 *
// head_dim * n_rows() in Mamba-2.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace hearth {

enum class RecurrentKind : uint8_t {
  kGatedDelta,  // a gated delta net
  kShortConv,   // a short convolution (LFM2), whose tail is all that a sequence keeps
  kMamba2,      // a selective scan
};

/// The sizes of a recurrent layer, and the layout of its memory. Sizes that a kind of layer does not have are
/// 0.
struct RecurrentShape {
  /// Columns of S that are stored side by side: [n_v_heads][n_column_groups()][n_rows()][kColumns]. So a
  /// group of a head of 128 dimensions is 8 KiB of contiguous memory, which fits an L1 cache, and groups are
  /// independent of each other. The last group is padded.
  static constexpr int kColumns = 16;

  static constexpr int kMinTaps = 2, kMaxTaps = 8;

  int n_k_heads = 0;
  int n_v_heads = 0;  // a multiple of n_k_heads
  int head_dim = 0;   // of values, and of keys unless key_rows is set
  int n_taps = 0;  // inputs of the convolution, including the current one; 0: there are no recurrent layers
  /// Which key head a value head uses: h mod n_k_heads (true), or h / (n_v_heads / n_k_heads).
  bool tiled = false;
  int key_rows = 0;  // numbers of a key, if they are not as many as a value's; 0: head_dim
  RecurrentKind kind = RecurrentKind::kGatedDelta;
  int n_channels = 0;       // of kShortConv
  bool row_decays = false;  // of kGatedDelta: each row of S has its own decay

  bool operator==(const RecurrentShape&) const = default;
  explicit constexpr operator bool() const { return n_taps > 0; }
  /// Rows of S: the numbers of a key.
  constexpr int n_rows() const { return key_rows > 0 ? key_rows : head_dim; }
  constexpr int64_t key_dim() const { return int64_t{n_k_heads} * n_rows(); }
  constexpr int64_t value_dim() const { return int64_t{n_v_heads} * head_dim; }
  /// The decays of a token.
  constexpr int64_t decay_dim() const { return row_decays ? int64_t{n_v_heads} * n_rows() : n_v_heads; }
  /// The parts into which the channels of the convolution are divided, one after the other: q, k and v (in
  /// Mamba-2 v, k and q, as in files), or one part.
  constexpr std::array<int64_t, 3> conv_parts() const {
    if (kind == RecurrentKind::kShortConv) return {n_channels, 0, 0};
    if (kind == RecurrentKind::kMamba2) return {value_dim(), key_dim(), key_dim()};
    return {key_dim(), key_dim(), value_dim()};
  }
  /// The sum of conv_parts(), without an array because device code cannot use those.
  constexpr int64_t conv_dim() const {
    return kind == RecurrentKind::kShortConv ? n_channels : 2 * key_dim() + value_dim();
  }
  constexpr int key_head(int h) const { return tiled ? h % n_k_heads : h / (n_v_heads / n_k_heads); }

  constexpr int n_column_groups() const { return (head_dim + kColumns - 1) / kColumns; }
  constexpr int64_t group_floats() const { return int64_t{n_rows()} * kColumns; }
  /// The numbers of floats of one sequence: of its state (0 without matrices), of the convolution's last
  /// inputs (its tail), and of one logged draft: k [key_dim], u [value_dim], decay [decay_dim], raw row
  /// [conv_dim].
  constexpr int64_t state_floats() const { return group_floats() * n_column_groups() * n_v_heads; }
  constexpr int64_t tail_floats() const { return (n_taps - 1) * conv_dim(); }
  constexpr int64_t log_floats() const { return key_dim() + value_dim() + decay_dim() + conv_dim(); }
  constexpr size_t state_bytes() const { return static_cast<size_t>(state_floats()) * sizeof(float); }
};

/// One layer's memory for all slots, in the backend's memory. Nothing in it must be set before the first run
/// of a sequence, because a fresh run ignores it.
struct RecurrentMemory {
  float* states = nullptr;  // [n_slots][state_floats()]; aligned to 64 bytes; not used without matrices
  float* tails = nullptr;   // [n_slots][n_taps - 1][conv_dim]: raw rows, the oldest first
  float* log = nullptr;     // [n_slots][max_drafts][log_floats()]; null if max_drafts is 0
  int max_drafts = 0;       // drafts of one sequence in a step

  constexpr float* state(const RecurrentShape& shape, int slot) const {
    return states + slot * shape.state_floats();
  }
  constexpr float* tail(const RecurrentShape& shape, int slot) const {
    return tails + slot * shape.tail_floats();
  }
  /// Logged draft i of the slot.
  constexpr float* logged(const RecurrentShape& shape, int slot, int i) const {
    return log + (int64_t{slot} * max_drafts + i) * shape.log_floats();
  }
  /// The raw row of this draft, which is the last part of its log.
  constexpr float* logged_raw(const RecurrentShape& shape, int slot, int i) const {
    return logged(shape, slot, i) + shape.log_floats() - shape.conv_dim();
  }
};

/// The tokens of one sequence in a step: n_tokens rows of the step's arrays, from row first_token on. They
/// follow the state of the slot and its first n_replayed logged drafts. The last n_uncertain tokens are
/// drafts: they are logged, and the state does not contain them. All other tokens are certain.
///
/// A run without tokens replays only, or clears the slot if it is fresh. So the state of a sequence that
/// ended after accepted drafts can be brought up to date before it is copied.
struct RecurrentRun {
  int slot = 0;
  int first_token = 0;
  int n_tokens = 0;
  int n_replayed = 0;   // accepted drafts of the slot's previous run; at most that run's n_uncertain
  int n_uncertain = 0;  // at most n_tokens and max_drafts
  bool fresh = false;   // the sequence begins here: the slot's memory is ignored; n_replayed is 0
};

/// Requests a copy of a sequence's memory as it is after a token of the step, for a snapshot in the middle of
/// a prompt. A call has at most kMost requests.
struct RecurrentCopy {
  static constexpr int kMost = 64;

  int after_token = 0;  // row of the step's arrays; a certain token
  /// For causal_conv() a tail [tail_floats()], for gated_delta() a state [state_floats()].
  float* out = nullptr;
};

/// The arguments of causal_conv(), which sets `out` to the convolved channels plus their biases, after silu
/// if `silu` is true, in the parts of conv_parts().
struct CausalConv {
  RecurrentShape shape;
  std::span<const RecurrentRun> runs;
  std::span<const RecurrentCopy> copies;  // in ascending order of after_token
  const float* raw = nullptr;             // [n_tokens, conv_dim]; not one of the outputs
  const float* taps = nullptr;            // [n_taps, conv_dim]; the last row is the current token's
  RecurrentMemory memory;                 // reads and writes tails and the raw rows of the log
  std::array<float*, 3> out = {};         // [n_tokens, conv_parts()[i]]; null where this is 0
  const float* bias = nullptr;            // [conv_dim]; null: no biases
  bool silu = true;
};

/// decay = e^(a * step) with step = softplus(alpha + dt), and beta = sigmoid(beta_logits). Without
/// beta_logits, beta = step. With row_decays, n_v_heads is decay_dim() here, and there are no beta_logits.
struct DeltaGates {
  int n_tokens = 0;
  int n_v_heads = 0;
  const float* alpha = nullptr;        // [n_tokens, n_v_heads]
  const float* beta_logits = nullptr;  // [n_tokens, n_v_heads], or null
  const float* dt = nullptr;           // [n_v_heads]
  const float* a = nullptr;            // [n_v_heads]; at most 0 in a sound model, so that decay is in [0, 1]
  float* decay = nullptr;              // [n_tokens, n_v_heads]; may be alpha
  float* beta = nullptr;               // [n_tokens, n_v_heads]; may be beta_logits
};

/// out [n_tokens, value_dim] = the gated delta rule of all runs.
struct GatedDelta {
  RecurrentShape shape;
  std::span<const RecurrentRun> runs;
  std::span<const RecurrentCopy> copies;  // in ascending order of after_token
  /// [n_tokens, key_dim]. The caller has scaled each head: k to length 1, q to length 1 / sqrt(head_dim).
  /// This is Backend::rms_norm() with eps / head_dim and equal weights: 1 / sqrt(head_dim) for k, 1 /
  /// head_dim for q.
  const float *q = nullptr, *k = nullptr;
  const float* v = nullptr;      // [n_tokens, value_dim]
  const float* decay = nullptr;  // [n_tokens, decay_dim]
  const float* beta = nullptr;   // [n_tokens, n_v_heads]
  RecurrentMemory memory;        // reads and writes states and the log except raw rows
  float* out = nullptr;          // [n_tokens, value_dim]; not one of the inputs
};

/// The arguments of selective_scan(), which sets state.out to the selective scan of all runs (Mamba-2).
/// state.beta has the steps; keys and queries are used as they are.
struct SelectiveScan {
  GatedDelta state;
  const float* skip = nullptr;  // [n_v_heads]
};

/// Pointers point to the backend's memory, spans to host memory. In each call, every slot occurs in at most
/// one run, and runs have different rows. Rows of arrays that belong to no run are neither read nor written.
/// Called by the engine thread; no call allocates. Each step calls causal_conv() once per layer and, if the
/// layer has matrices, gated_delta() or selective_scan() with the same runs, in either order. If a step is
/// abandoned between the two calls, its slots must start again with fresh runs.
///
/// On a device (ComputeDevice), calls belong to a step that begin_step() began, even if they only replay
/// drafts. A step that is `decoding` (StepShape) has at most n_tokens runs, and no copies. Otherwise the
/// device throws std::logic_error, because it records such steps.
class RecurrentOps {
 public:
  virtual ~RecurrentOps() = default;
  virtual void causal_conv(const CausalConv& call) = 0;
  virtual void delta_gates(const DeltaGates& call) = 0;
  /// REQUIRES: n_rows() is at most that of StepBounds::recurrent.
  virtual void gated_delta(const GatedDelta& call) = 0;
  /// REQUIRES: as gated_delta().
  virtual void selective_scan(const SelectiveScan& call) = 0;
};

}  // namespace hearth
