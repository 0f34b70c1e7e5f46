// IndexerOps: attention that reads only the positions that an indexer chooses (DeepSeek-V3.2, 2025, "DeepSeek
// sparse attention").
//
// An indexer has one key per position, which all its heads share, and for each token a query and a weight per
// head. The score of position s for a token is
//
//   score(s) = sum over heads h of weight_h * max(0, q_h k_s)
//
// The token attends to the top_k positions with the largest scores; of equal scores, the lower position is
// chosen. A NaN counts as the largest score, so that it reaches the output. A token that sees at most top_k
// positions attends to all of them, as without an indexer. Scores are only compared, so factors that all
// scores of a token share are left out.
//
// Bits: a product is a chain of fused multiply-adds in the order of dimensions, from +0.0; a score is such a
// chain in the order of heads. A token's choice and its attention depend only on its own queries and on the
// keys that it sees, never on the batch, on how a prompt is cut or on threads. All ISAs with fused
// multiply-adds give the same bits.
//
// A Backend that has these operations is also an IndexerOps; CpuBackend is. Keys are IEEE halves in KV
// blocks: [n_blocks][head_dim][block_tokens], as one head's keys in kernels/kv_layout.h.
#pragma once

#include <cstdint>

#include "kernels/kv_layout.h"

namespace hearth {

struct KvPlaces;

/// The sizes of an indexer.
struct IndexerShape {
  int n_heads = 0;   // 0: there is no indexer
  int head_dim = 0;  // of queries and keys
  int top_k = 0;     // positions that a token attends to

  explicit operator bool() const { return n_heads > 0; }
};

/// Upper bounds for all later steps. max_context > shape.top_k.
struct IndexerBounds {
  IndexerShape shape;
  int max_tokens = 1;
  int max_context = 1;  // positions of a sequence
  int value_dim = 0;    // numbers of a position's key and value in attention
};

/// The queries of a step.
struct IndexQueries {
  const float* q = nullptr;        // [n_tokens, n_heads, head_dim]
  const float* weights = nullptr;  // [n_tokens, n_heads]
};

/// The queries of attention with one key/value head, and the scale of their scores. The row of token t begins
/// at q + t * stride.
struct ChosenQueries {
  const float* q = nullptr;
  int64_t stride = 0;
  int n_heads = 0;
  float scale = 1.0f;
};

/// Float pointers and keys point to the backend's memory. Called by the engine thread; only
/// reserve_indexer() allocates. REQUIRES in all other calls: the arguments are within the bounds of
/// reserve_indexer() and of Backend::reserve(), and block_tokens is a multiple of 16.
class IndexerOps {
 public:
  virtual ~IndexerOps() = default;

  /// Allocates the memory for layers with an indexer. Called only at load, before any arithmetic; a second
  /// call prepares for another forward pass.
  virtual void reserve_indexer(const IndexerBounds& bounds) = 0;

  /// Writes the keys k [n_tokens, head_dim] of the step's tokens to `keys`.
  virtual void append_index(const float* k, const KvPlaces& places, int block_tokens, uint16_t* keys) = 0;

  /// Sets chosen [n_tokens, top_k], which is in host memory, to each token's positions, in ascending order.
  /// Rows of tokens that see at most top_k positions are not written. REQUIRES: the step's own keys have been
  /// appended.
  virtual void choose_positions(const IndexQueries& queries, const KvPlaces& places, int block_tokens,
                                const uint16_t* keys, int32_t* chosen) = 0;

  /// Like Backend::attention(), but over the positions in `chosen`. out is [n_tokens, n_heads, head_dim].
  /// REQUIRES: shape has one key/value head of KvType::kF16, and the block_tokens of choose_positions(); keys
  /// and values are the same numbers (latent attention).
  virtual void attend_to_chosen(const ChosenQueries& queries, const KvPlaces& places, const KvShape& shape,
                                KvLayer layer, const int32_t* chosen, float* out) = 0;
};

}  // namespace hearth
