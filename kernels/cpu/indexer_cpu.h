// The operations of IndexerOps on the CPU.
//
// Owned by CpuBackend; called by the engine thread. The tokens of a step are processed a few at a time. Their
// scores are computed in pieces of positions, and each choice by one thread. Attention over chosen positions
// copies their keys and values side by side into KV blocks of its own, and then is attention over these,
// with the loops and bits of all attention. Rejected: loops that jump from position to position, because a
// key is a column of its KV block, and reading a column reads the whole KV block.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/backend.h"
#include "kernels/cpu/attention.h"
#include "kernels/cpu/isa/vector_kernels.h"
#include "kernels/cpu/threads/thread_pool.h"
#include "kernels/indexer.h"

namespace hearth {

class IndexerCpu {
 public:
  /// The references must outlive this object.
  IndexerCpu(ThreadPool& pool, const VectorKernels& kernels, Attention& attention)
      : pool_(pool), kernels_(kernels), attention_(attention) {}

  /// Allocates the memory for steps within these bounds, from `memory`. Attention's own memory is reserved by
  /// the backend.
  void reserve(const IndexerBounds& bounds, Memory& memory);
  /// Bytes that reserve() allocates. A double, so that absurd sizes do not overflow.
  static double bytes_needed(const IndexerBounds& bounds);

  // See IndexerOps.
  void append(const float* k, const KvPlaces& places, int block_tokens, uint16_t* keys);
  void choose(const IndexQueries& queries, const KvPlaces& places, int block_tokens, const uint16_t* keys,
              int32_t* chosen);
  void attend(const ChosenQueries& queries, const KvPlaces& places, const KvShape& shape, KvLayer layer,
              const int32_t* chosen, float* out);

 private:
  bool needs_choice(const KvPlaces& places, int token) const {
    return places.positions[token] >= shape_.top_k;
  }
  int next_run(const KvPlaces& places, int token) const;
  void choose_for(const IndexQueries& queries, const KvPlaces& places, int block_tokens, const uint16_t* keys,
                  int first_token, int n_tokens, int32_t* chosen);
  void gather(const KvPlaces& places, const KvShape& shape, KvLayer layer, const int32_t* chosen,
              int first_token, int n_tokens);

  ThreadPool& pool_;
  const VectorKernels& kernels_;
  Attention& attention_;
  IndexerShape shape_;
  int at_once_ = 0;  // tokens that are processed together
  int64_t max_context_ = 0;
  Buffer scores_;                            // [at_once_, max_context]
  Buffer order_;                             // [at_once_, max_context] scores as uint32_t of the same order
  std::vector<std::vector<uint64_t>> ties_;  // [at_once_] room for choosing among similar scores
  Buffer keys_, values_;                     // copies of chosen positions, in KV blocks for each token
  std::vector<int32_t> positions_, table_of_, tables_;  // KvPlaces of the copies
  std::vector<uint16_t> rounded_;                       // [threads, head_dim]
};

}  // namespace hearth
