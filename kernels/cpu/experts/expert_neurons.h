// Skips zeros inside experts on the CPU: finds the active neurons of a step's chosen experts, and sums over
// their down columns.
//
// ExpertFfn (expert_ffn.h) groups tokens by expert; this file computes the experts that have down columns. A
// token's sum for one of its experts does not depend on threads, on the batch, or on which of the two methods
// below computes it. For output column c, sum begins at 0, and sum = fma(value_j, w_jc, sum) for each of the
// token's active neurons j of the expert in ascending order, where w_jc is the weight dequantized to float
// (kernels/neurons.h defines the sum for CodedColumns). Then the expert's bias is added. Both methods give
// the same bits:
//   an expert of few tokens (decode): each thread computes runs of neurons: first the gate rows, and then the
//       up rows of neurons that pass the gate for at least one token. Then each thread computes some columns:
//       it adds the down rows of each token's active neurons.
//   an expert of many tokens (prefill): ExpertFfn has computed all gate and up products. Threads find the
//       active neurons. Then each thread computes some columns: it dequantizes these columns of a down row
//       once, and adds them for all tokens for which the row's neuron is active.
// Each stage is one parallel region over all experts. Owned by ExpertFfn; called by the engine thread.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "kernels/backend.h"
#include "kernels/cpu/isa/down_kernels.h"
#include "kernels/cpu/isa/matmul_kernels.h"
#include "kernels/cpu/isa/vector_kernels.h"
#include "kernels/cpu/threads/thread_pool.h"

namespace hearth {

/// An expert that tokens of a step chose. Its pairs have rows first_row to first_row + n_tokens - 1 of the
/// scratch matrices. x and quantized point to the expert's first input row.
struct ChosenExpert {
  const Expert* expert = nullptr;
  int64_t first_row = 0;
  int n_tokens = 0;
  const float* x = nullptr;              // [n_tokens, d_model]; read for float weights only
  const std::byte* quantized = nullptr;  // [n_tokens] rows as in MatmulArgs; read for quantized weights only
};

class ExpertNeurons {
 public:
  /// An expert of up to this many tokens is computed neuron by neuron.
  static constexpr int kMaxFewTokens = 16;

  ExpertNeurons(ThreadPool& pool, const MatmulKernels& matmul, const VectorKernels& vector,
                const DownKernels& down)
      : pool_(pool), matmul_(matmul), vector_(vector), down_(down) {}

  void reserve(const StepBounds& bounds, Backend& memory);

  /// A step's experts, all with down columns, and matrices with one row for each pair of a token and an
  /// expert that it chose.
  struct Call {
    FfnActivation activation;
    int64_t d_model, d_expert;
    std::span<const ChosenExpert> few;   // of at most kMaxFewTokens tokens
    std::span<const ChosenExpert> many;  // of more than kMaxFewTokens tokens
    float* gates;  // [n_pairs, d_expert]; for `many`, the products with gate rows (with up rows if there are
                   // no gates). Overwritten
    float* ups;    // [n_pairs, d_expert]; for `many`, the products with up rows if there are gates.
                   // Overwritten
    float* out;    // [n_pairs, d_model]
  };
  /// Fills `out` for all experts, biases included. Adds to `counts` the rows that were read, the neurons that
  /// passed the gate, and the active neurons.
  void run(const Call& call, ExpertCounts& counts);

 private:
  void find_active_of_few(const Call& call);
  void compute_run(const Call& call, const ChosenExpert& chosen, int64_t begin, int64_t end, int thread);
  void multiply(const Call& call, const ChosenExpert& chosen, const Matrix& weight, const float* bias,
                int64_t begin, std::span<const int32_t> rows, float* to);
  int64_t keep_passed(const Call& call, const ChosenExpert& chosen, int64_t begin, int64_t n, int32_t* ids);
  void list_active(const Call& call, const ChosenExpert& chosen, int64_t begin, std::span<const int32_t> ids);
  void find_active_of_many(const Call& call);
  void compute_word(const Call& call, const ChosenExpert& chosen, int64_t word);
  void add_down(const Call& call);
  void add_rows(const Call& call, const ChosenExpert& chosen, int64_t column, int64_t n_columns);
  void add_panels(const Call& call, const ChosenExpert& chosen, int64_t column, int64_t n_columns,
                  int thread);
  void add_word(const Call& call, const ChosenExpert& chosen, int64_t word, int64_t column, int64_t n_columns,
                int thread);

  ThreadPool& pool_;
  const MatmulKernels& matmul_;
  const VectorKernels& vector_;
  const DownKernels& down_;

  int64_t max_neurons_ = 0;  // of an expert
  std::vector<float> ones_;  // [max_neurons]
  std::atomic<int64_t> passed_{0}, active_{0}, up_rows_{0}, down_rows_{0};

  // For experts of few tokens. Each pair has a row in ids_ and in Call::gates. In both rows, the active
  // neurons of a run begin at the column of the run's first neuron: ids_ has their numbers, and Call::gates
  // their values.
  std::vector<int32_t> run_ids_;   // per thread, [max_neurons]: neurons that pass the gate for some token
  std::vector<int32_t> ids_;       // [n_pairs, d_expert]
  std::vector<int32_t> n_listed_;  // [n_pairs, words]: at a run's first word, the number of its active
                                   // neurons

  // For experts of many tokens. An expert's part of bits_ begins at first_row * words, and its part of
  // values_ at first_row * d_expert. Each part is ordered by word, then by token.
  std::vector<uint64_t> bits_;  // [words, n_tokens] bit i: neuron 64 * word + i is active
  Buffer values_;               // [words, 64 * n_tokens] values of only the active neurons, by token, then by
                                // neuron
  std::vector<Buffer> panels_;  // per thread: a panel of weights, its scales, its mins, and sums of
                                // max_tokens tokens
};

}  // namespace hearth
