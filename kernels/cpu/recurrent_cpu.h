// RecurrentOps on the CPU: divides the operations of recurrent layers into pieces for the threads.
//
// The arithmetic of a piece is in VectorKernels. The convolution is divided by tokens and channels, because
// tokens need only raw rows of earlier tokens. The gated delta rule and the selective scan are divided by
// groups of 16 columns of a head: a thread computes all tokens of its groups in order, so it never waits for
// another thread. Owned by CpuBackend; called by the engine thread.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/cpu/isa/vector_kernels.h"
#include "kernels/cpu/threads/thread_pool.h"
#include "kernels/recurrent.h"

namespace hearth {

class RecurrentCpu final : public RecurrentOps {
 public:
  /// `pool` and `kernels` must outlive this object.
  RecurrentCpu(ThreadPool& pool, const VectorKernels& kernels) : pool_(pool), kernels_(kernels) {}

  /// Allocates the memory for layers whose states have at most as many rows as those of `shape`.
  void reserve(const RecurrentShape& shape);

  void causal_conv(const CausalConv& call) override;
  void delta_gates(const DeltaGates& call) override;
  void gated_delta(const GatedDelta& call) override;
  void selective_scan(const SelectiveScan& call) override;

 private:
  /// Neighboring channels that belong to the same output.
  struct Channels {
    int64_t first = 0;  // of the conv_dim channels
    int64_t n = 0;
    float* out = nullptr;  // row 0 of the channels' output
    int64_t out_stride = 0;
  };

  static int64_t n_pieces(const RecurrentShape& shape);
  static Channels channels_at(const CausalConv& call, int64_t index);
  void convolve(const CausalConv& call, const RecurrentRun& run, int token, const Channels& channels) const;
  static void keep_rows(const CausalConv& call, const RecurrentRun& run, int64_t first_channel, int64_t n);

  /// Groups [first, end) of all groups of columns of a layer's heads, in the order of the states.
  struct Groups {
    int64_t first = 0;
    int64_t end = 0;
  };

  // In these functions, `skip` is that of a selective scan, or null for the gated delta rule.
  void compute_runs(const GatedDelta& call, const float* skip);
  void advance(const GatedDelta& call, const float* skip, const RecurrentRun& run, Groups groups,
               float* draft_state) const;
  void begin(const GatedDelta& call, const RecurrentRun& run, int64_t group, float* state) const;
  void compute(const GatedDelta& call, const float* skip, int64_t first_token, int n_tokens, int64_t group,
               float* state, float* logged) const;

  ThreadPool& pool_;
  const VectorKernels& kernels_;
  int64_t draft_floats_ = 0;
  std::vector<float> draft_states_;  // per thread: the state of a group of columns after certain tokens, to
                                     // which drafts are applied
};

}  // namespace hearth
