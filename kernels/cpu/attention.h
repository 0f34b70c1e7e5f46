// Divides attention over the paged KV cache into pieces for the threads.
//
// The arithmetic of a piece is VectorKernels::attend. Owned by CpuBackend, called by the engine thread.
//
// A sequence's keys are cut into slices. The cuts depend only on how many positions the token sees. Softmax
// runs over each slice separately, and the results of the slices are joined in order. So it does not matter
// which thread computes a slice, or how many queries are computed with it. A decode token with a long context
// is divided among all threads by slices. A prefill is divided by tiles of queries, and the queries of a tile
// share each read of K and V. Both ways give a token the same bits.
//
// Slices begin at multiples of their length. With a sliding window, the first slice of a token is the slice
// that contains its first visible key. Reading that slice begins at the tile (kKeyTile keys) with this key.
// If the window hides keys, the slice length depends on the window instead of on the context.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/backend.h"
#include "kernels/cpu/isa/vector_kernels.h"
#include "kernels/cpu/threads/thread_pool.h"

namespace hearth {

class Attention {
 public:
  /// `pool` and `kernels` must outlive this object.
  Attention(ThreadPool& pool, const VectorKernels& kernels) : pool_(pool), kernels_(kernels) {}

  /// Allocates all memory that run() needs, for at most max_tokens tokens, n_heads heads of at most
  /// max_head_dim dimensions, and positions below max_context.
  void reserve(int max_tokens, int n_heads, int max_head_dim, int max_context);

  /// See Backend::attention. REQUIRES: the arguments are within the bounds given to reserve().
  void run(const float* q, int64_t stride, int n_heads, const AttentionScores& scores, const KvPlaces& places,
           const KvShape& shape, KvLayer layer, float* out);

 private:
  /// Consecutive tokens of one sequence whose keys are cut into the same slices.
  struct TokenTile {
    int first_token;
    int n_tokens;
    int slice_tokens;
    int first_slice;  // of the first token
    int end_slice;    // of the last token

    int n_slices() const { return end_slice - first_slice; }
  };
  /// The arguments of one call of run(), and values derived from them.
  struct Call {
    const float* q;
    int64_t stride;
    int n_heads;
    const AttentionScores& scores;
    const KvPlaces& places;
    const KvShape& shape;
    KvLayer layer;
    float* out;
    int group;           // query heads that share a key/value head
    int heads_per_item;  // number of query heads that are computed together
    int items_per_tile;
  };
  /// The tokens of a tile, with some query heads of one key/value head. Rows are ordered by token, then by
  /// head.
  struct Item {
    TokenTile tile;
    int kv_head;
    int first_head;
    int n_heads;
    int n_rows() const { return tile.n_tokens * n_heads; }
  };
  /// The memory of one thread.
  struct Scratch {
    std::vector<float> q, scores;
    std::vector<float> weighted, slice_weighted;  // [kMaxRows, head_dim]
    std::vector<float> largest, sum, slice_largest, slice_sum;
    std::vector<int32_t> firsts, limits, positions;
    std::vector<float> slopes;
  };
  /// Row r of an item sees positions firsts[r] (0 if firsts is null) to limits[r] - 1.
  struct Seen {
    const int32_t* firsts;
    const int32_t* limits;
  };
  /// The softmax of a slice for each row; see AttentionTile.
  struct Partial {
    float* largest;
    float* sum;
    float* weighted;
  };

  void make_tiles(const Call& call);
  Item item_at(const Call& call, int64_t index) const;
  Seen seen_by(const Call& call, const Item& item, Scratch& scratch) const;
  float query_scale(const Call& call, int token) const;
  PartlySeenTile load_queries(const Call& call, const Item& item, Scratch& scratch) const;
  void attend_slice(PartlySeenTile tile, KvType kv_type, const Item& item, int slice,
                    const Partial& result) const;
  void merge_slice(const Call& call, const Item& item, const Seen& seen, int slice, const Partial& from,
                   const Partial& into) const;
  void write_out(const Call& call, const Item& item, const Partial& total) const;
  void run_whole(const Call& call, const Item& item, Scratch& scratch) const;
  void run_split(const Call& call, int64_t n_items);
  Partial split_result(const Call& call, const Item& item, int slice);

  ThreadPool& pool_;
  const VectorKernels& kernels_;
  std::vector<TokenTile> tiles_;
  std::vector<Scratch> scratch_;  // one for each thread
  std::vector<float> zeros_;      // [max_head_dim] the value of a sink
  int max_head_dim_ = 0;
  int max_slices_ = 0;
  // Results of slices, which threads compute and the calling thread then joins.
  std::vector<float> split_largest_, split_sum_, split_weighted_;
};

}  // namespace hearth
