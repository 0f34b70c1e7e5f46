// The float arithmetic of the CPU backend that is not a matrix product: one table of functions per ISA.
//
// CpuBackend chooses a table once. Every function works on one row or one run of elements on the calling
// thread and has no state, so any thread may call it. An element's arithmetic does not depend on its index in
// the run: every ISA has 16 lanes, the same polynomials, and one fixed order of sums. Pointers need no
// alignment.
#pragma once

#include <cstdint>

#include "kernels/backend.h"
#include "kernels/cpu/isa/isa.h"
#include "kernels/recurrent.h"

namespace hearth {

/// A tile of queries and one slice of a sequence's keys, for one key/value head. The kernel writes the
/// largest score of this slice to `largest`. It also computes a softmax over this slice alone, relative to
/// this score: `sum` is the denominator, and `weighted` is the numerator. VectorKernels::merge joins slices.
struct AttentionTile {
  const float* q = nullptr;         // [n_rows, head_dim], already times scale
  const int32_t* limits = nullptr;  // [n_rows] row r sees positions below limits[r]; never decreasing
  int n_rows = 0;
  int head_dim = 0;
  int begin = 0;  // the slice's positions are [begin, end); begin is a multiple of kKeyTile
  int end = 0;
  // This head's part of the KV cache, laid out as in KvHead<type> for the KvType of the kernel. The keys
  // [head_dim, block_tokens] of KV block b begin at element b * block_stride of k, and the values
  // [block_tokens, head_dim] of this block at element b * block_stride of v.
  const void* k = nullptr;
  const void* v = nullptr;
  const uint16_t* k_scales = nullptr;
  const uint16_t* v_scales = nullptr;
  int64_t block_stride = 0;
  const int32_t* blocks = nullptr;  // the sequence's block table
  int block_tokens = 0;

  float* scores = nullptr;    // [n_rows, kKeyTile], scratch
  float* largest = nullptr;   // [n_rows] out: largest score, -inf if the row sees nothing here
  float* sum = nullptr;       // [n_rows] out: sum of exp(score - largest)
  float* weighted = nullptr;  // [n_rows, head_dim] out: sum of exp(score - largest) * value
};

/// A tile with windows, capped scores or slopes. It is a separate type with its own copies of the loops. When
/// it shared functions with AttentionTile, the compiler did not inline them, and decoding was up to 4 %
/// slower.
struct PartlySeenTile : AttentionTile {
  const int32_t* firsts = nullptr;  // [n_rows] row r sees positions from firsts[r] on, ascending; null: from
                                    // 0
  float soft_cap = 0.0f;            // see AttentionScores
  const float* slopes = nullptr;    // [n_rows] each row's slope, see AttentionScores; null: none
  const int32_t* positions = nullptr;  // [n_rows] each row's position; null without slopes
};

/// The number of keys in a tile of keys. For each tile, attention computes all scores, and then their
/// maximum. The number is large enough to make the exponentials of the online softmax cheap, and small enough
/// that a tile's scores, K and V stay in the L1 cache.
inline constexpr int kKeyTile = 64;

/// Rows x + ids[j] * stride, each with a weight.
struct WeightedRows {
  const float* x = nullptr;
  int64_t stride = 0;
  const int32_t* ids = nullptr;    // [n]
  const float* weights = nullptr;  // [n]
  int n = 0;
};

/// Channels of one token's short convolution. n_taps >= 1.
struct ConvolvedChannels {
  const float* const* rows = nullptr;  // [n_taps][n]: the raw rows, the oldest first
  const float* taps = nullptr;         // [n_taps][n], rows taps_stride floats apart
  int64_t taps_stride = 0;
  int n_taps = 0;
  int64_t n = 0;
  float* out = nullptr;         // [n]; not one of the inputs
  const float* bias = nullptr;  // [n]; or null
  bool silu = true;
};

/// Consecutive tokens of the gated delta rule or of the selective scan, for one group of columns of one head
/// (kernels/recurrent.h).
struct DeltaTokens {
  float* state = nullptr;    // [n_rows][kColumns]; updated
  const float* q = nullptr;  // [n_tokens][n_rows], rows key_stride floats apart, and so is k
  const float* k = nullptr;
  const float* v = nullptr;      // [n_tokens][n_columns], rows value_stride floats apart, and so is out
  const float* decay = nullptr;  // [n_tokens], or [n_tokens][n_rows] with row_decays; decay_stride apart
  const float* beta = nullptr;   // [n_tokens], gate_stride floats apart; of a selective scan: the steps
  float skip = 0.0f;             // of a selective scan
  float* out = nullptr;
  float* deltas = nullptr;  // [n_tokens][n_columns] out: u, rows delta_stride floats apart; or null
  int64_t key_stride = 0, value_stride = 0, gate_stride = 0, delta_stride = 0;
  int n_tokens = 0;
  int n_rows = 0;
  int n_columns = 0;  // 1 to kColumns
  int64_t decay_stride = 0;
  bool row_decays = false;
};

/// Logged tokens of a group of columns, which are applied to the state again. All rows are `stride` floats
/// apart.
struct DeltaReplay {
  float* state = nullptr;         // [n_rows][kColumns]; updated
  const float* k = nullptr;       // [n_tokens][n_rows]
  const float* deltas = nullptr;  // [n_tokens][n_columns]: u
  const float* decay = nullptr;   // [n_tokens], or [n_tokens][n_rows] with row_decays
  int64_t stride = 0;
  int n_tokens = 0;
  int n_rows = 0;
  int n_columns = 0;  // 1 to kColumns
  bool row_decays = false;
};

/// The positions [begin, end) of a sequence, scored for one token by an indexer (kernels/indexer.h).
struct IndexTile {
  const float* q = nullptr;        // [n_heads, head_dim]
  const float* weights = nullptr;  // [n_heads]
  int n_heads = 0;
  int head_dim = 0;
  int begin = 0;  // a multiple of 16
  int end = 0;
  const uint16_t* keys =
      nullptr;  // the keys [head_dim, block_tokens] of KV block b begin at b * block_stride
  int64_t block_stride = 0;
  const int32_t* blocks = nullptr;  // the sequence's block table
  int block_tokens = 0;             // a multiple of 16
  float* scores = nullptr;          // [end - begin] out
};

struct VectorKernels {
  /// out = x / sqrt(mean(x^2) + eps) * weight, for n floats. out may be x. The squares are summed in 64 float
  /// lanes. A lane adds n/64 positive terms, so the sum's relative error is below (n/64 + 6) * 2^-24, which
  /// is 1e-5 at n = 8192. The square root halves this error, so doubles are not needed.
  void (*rms_norm)(const float* x, const float* weight, float eps, int64_t n, float* out);

  /// out = (x - mean) / sqrt(variance + eps) * weight + bias, for n floats; bias may be null. out may be x.
  /// Two passes avoid cancellation in the variance. Sums use 64 lanes as in rms_norm.
  void (*layer_norm)(const float* x, const float* weight, const float* bias, float eps, int64_t n,
                     float* out);

  /// A row of Backend::match_rows() and of Backend::cut_rows(). Sums use 64 lanes as in rms_norm.
  void (*match_row)(const float* to, float least, int64_t n, float* x);
  void (*cut_row)(float n_deviations, int64_t n, float* x);

  /// A row of a sum of MixedRows: the arrays of `added` are `stride` floats apart, weights is [n_added].
  void (*mix_row)(const float* x, const float* added, int64_t stride, const float* weights, int n_added,
                  int64_t n, float* out);

  /// See Backend::gated_activation.
  void (*gated_activation)(FfnActivation act, const float* gate, const float* up, int64_t n, float* out);

  /// out = softmax(x) of n floats: e^(x - the largest of x), divided by the sum of these exponentials. out
  /// may be x. All of out is NaN if any x is NaN or +infinity, or if all x are -infinity.
  void (*softmax)(const float* x, int64_t n, float* out);

  /// out = 1 / (1 + e^-x), for n floats. out may be x. A NaN stays a NaN.
  void (*sigmoid)(const float* x, int64_t n, float* out);

  /// Adds the sum over j of weights[j] * row j to out, for n floats of each row. The sum starts at 0.0 and is
  /// a chain of fused multiply-adds in the order of j.
  void (*add_weighted_rows)(const WeightedRows& rows, int64_t n, float* out);

  /// See Backend::soft_cap.
  void (*soft_cap)(float cap, int64_t n, float* out);

  /// Rotates one head's first n_rot floats. For kHalves, `table` has n_rot / 2 cosines, then n_rot / 2 sines.
  /// For kInterleaved, it has each cosine twice (n_rot numbers), and then each sine twice (n_rot numbers):
  /// first negated, then as it is.
  void (*rotate)(RopeKind kind, const float* table, int n_rot, float* head);

  /// Converts to IEEE half floats, rounded to nearest even; values that are too large become infinite.
  void (*to_half)(const float* x, int64_t n, uint16_t* out);

  /// Rounds n floats to KvType::kQ8 (kernels/kv_layout.h): out [n], scales [n / kKvGroup].
  /// REQUIRES: n is a multiple of kKvGroup.
  void (*to_q8)(const float* x, int64_t n, int8_t* out, uint16_t* scales);

  /// One function for each KvType, in the order of KvType. See AttentionTile.
  void (*attend[kKvTypes])(const AttentionTile& tile);
  void (*attend_partly_seen[kKvTypes])(const PartlySeenTile& tile);

  /// For one row, joins the softmax of a later slice (or of a sink) into the softmax of all earlier slices. A
  /// state is {largest, sum}; weighted is [head_dim].
  void (*merge)(const float* slice_state, const float* slice_weighted, int head_dim, float* state,
                float* weighted);

  /// out = weighted / sum.
  void (*divide)(const float* weighted, float sum, int64_t n, float* out);

  /// out = act(sum over tap of taps[tap] * rows[tap] + bias), for n channels, where act is silu or nothing.
  /// The sum begins with the product of row 0 and is a chain of fused multiply-adds in the order of rows. The
  /// bias is added last.
  void (*convolve)(const ConvolvedChannels& call);

  /// One token's gates of n value heads; see DeltaGates.
  void (*delta_gates)(const float* alpha, const float* beta_logits, const float* dt, const float* a,
                      int64_t n, float* decay, float* beta);

  void (*delta_tokens)(const DeltaTokens& call);
  void (*scan_tokens)(const DeltaTokens& call);
  void (*delta_replay)(const DeltaReplay& call);

  void (*index_scores)(const IndexTile& tile);
};

/// REQUIRES: isa is one of supported_isas().
const VectorKernels& vector_kernels(Isa isa);

extern const VectorKernels kVectorKernelsScalar;
extern const VectorKernels kVectorKernelsAvx2;
extern const VectorKernels kVectorKernelsAvx512;
extern const VectorKernels kVectorKernelsNeon;

}  // namespace hearth
