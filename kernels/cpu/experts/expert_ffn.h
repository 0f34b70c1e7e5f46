// Computes the experts of a layer on the CPU. Groups the tokens of a step by the experts that they chose.
//
// A pair is a token and one of its experts. Pairs are sorted by expert, and every scratch matrix has one row
// per pair, in this order. So the rows of an expert are adjacent. They are multiplied together, and the
// expert's weights are read once. A call has five parallel regions, whatever the number of chosen experts:
//   1. x is quantized, and copied to the pairs' rows;
//   2. the gate and up products of all chosen experts are computed (kernels/cpu/matmul/matmul_jobs.h);
//   3. the activation is computed, and its result is quantized;
//   4. the down products of all chosen experts are computed;
//   5. each token's outputs are added up, in the order in which its experts were chosen. If a device has some
//      of the experts, the outputs of the other experts are copied instead, and the device adds them up.
// Experts with down columns skip zeros. For these experts, ExpertNeurons (expert_neurons.h) computes stages 2
// to 4 if few tokens chose the expert, and stages 3 and 4 if many did. Weights are read in place. The order
// of a token's sums does not depend on the other tokens of the step. Owned by CpuBackend; called by the
// engine thread.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "kernels/backend.h"
#include "kernels/cpu/experts/expert_neurons.h"
#include "kernels/cpu/isa/matmul_kernels.h"
#include "kernels/cpu/isa/vector_kernels.h"
#include "kernels/cpu/matmul/matmul_jobs.h"
#include "kernels/cpu/threads/thread_pool.h"

namespace hearth {

class ExpertFfn {
 public:
  ExpertFfn(ThreadPool& pool, const MatmulKernels& matmul, const VectorKernels& vector,
            const DownKernels& down, ActivationBits bits, MatmulJobs& jobs)
      : pool_(pool),
        matmul_(matmul),
        vector_(vector),
        bits_(bits),
        products_(jobs),
        neurons_(pool, matmul, vector, down) {}

  void reserve(const StepBounds& bounds, Backend& memory);

  /// Implements Backend::experts().
  void run(std::span<const Expert> experts, FfnActivation activation, const float* x,
           const ExpertChoice& choice, float* out, ExpertCounts& counts);

  /// Implements HostExperts::missing_expert_rows().
  void run_missing(std::span<const Expert> experts, FfnActivation activation, const float* x,
                   const ExpertChoice& choice, const int32_t* slots, float* rows, ExpertCounts& counts);

 private:
  /// The arguments of a call, and the shape of its experts.
  struct Call {
    std::span<const Expert> experts;
    FfnActivation activation;
    const float* x;
    ExpertChoice choice;
    const int32_t* slots;  // null: all pairs are computed; else only pairs with a negative slot
    int64_t n_pairs, d_model, d_expert;
    bool gated;

    bool computes(size_t pair) const { return slots == nullptr || slots[pair] < 0; }
  };

  Call call_of(std::span<const Expert> experts, FfnActivation activation, const float* x,
               const ExpertChoice& choice, const int32_t* slots) const;
  void compute(const Call& call, ExpertCounts& counts);
  void sort_pairs(const Call& call);
  void fill_inputs(const Call& call);
  void list_chosen(const Call& call);
  void multiply_inputs(const Call& call, std::span<const ChosenExpert> chosen);
  int64_t activate(const Call& call);
  void multiply_hidden(const Call& call);
  void add_outputs(const Call& call, float* out);
  void copy_rows(const Call& call, float* rows);

  int64_t first_row(int32_t expert) const { return first_row_[static_cast<size_t>(expert)]; }
  int64_t n_rows(const Call& call) const { return first_row(static_cast<int32_t>(call.experts.size())); }
  int32_t first_row_of(const Call& call, int64_t token) const;
  int n_tokens(int32_t expert) const { return static_cast<int>(first_row(expert + 1) - first_row(expert)); }
  std::byte* quantized_x(int64_t row, int64_t d_model) const;
  std::byte* quantized_hidden(int64_t row, int64_t d_expert) const;

  ThreadPool& pool_;
  const MatmulKernels& matmul_;
  const VectorKernels& vector_;
  ActivationBits bits_;
  MatmulJobs& products_;
  ExpertNeurons neurons_;

  std::vector<int32_t> first_row_;     // [n_experts + 1] where each expert's rows begin
  std::vector<int32_t> next_row_;      // [n_experts] scratch of sort_pairs()
  std::vector<int32_t> token_of_row_;  // [n_pairs]
  std::vector<int32_t> row_of_pair_;   // [n_tokens, n_used]; -1: the pair is not computed here
  std::vector<ChosenExpert> chosen_;   // the experts that at least one token chose: first the
                                       // experts with few tokens, then the others, each sorted by number
  std::vector<MatmulJob> jobs_;        // the products of one parallel region

  // One row per pair. A token's x is quantized into the row of its first expert. Experts that several tokens
  // chose get a copy of this row; an expert that only one token chose reads the row itself.
  Buffer quantized_x_;
  Buffer model_rows_;  // [d_model] x if weights are floats; later the down products
  Buffer hidden_;      // [d_expert] gate products; later the activation
  Buffer ups_;         // [d_expert] up products
  Buffer quantized_hidden_;
};

}  // namespace hearth
