// The sparse FFN on the CPU: how the neurons of a step are shared out among threads, and in which order they
// are added up.
//
// Order of a token's sums, whatever threads, batch, lists and path: neurons are cut into kNeuronRanges ranges
// (neuron_range() of them each, by number); within a range, sum = fma(value_j, w_jc, sum) over the token's
// active neurons in ascending order, from 0 (of CodedColumns as kernels/neurons.h says); then out_c += sum,
// range by range, where the token has an active neuron in the range; the bias last. w is the weight as
// dequantised to float.
//
// Two ways to get there, with the same bits:
//   few tokens (decode): a thread takes a range and does all of it: gate rows, up rows of what passed, down
//     rows of what is left, each row read once, into the range's own partial sums; then partials are added
//     up.
//   many tokens (prefill): products with gate and up rows by matmul; then threads take columns of the down
//     projection, and each row's part is dequantised once and added to all tokens that want it.
//
// Where another device has a share of the neurons, contributions are summed as integers instead
// (kernels/neuron_sums.h), whose order does not matter.
// Owned by CpuBackend; called by the engine thread.
#pragma once

#include <array>
#include <vector>

#include "kernels/backend.h"
#include "kernels/cpu/down_kernels.h"
#include "kernels/cpu/matmul_kernels.h"
#include "kernels/cpu/thread_pool.h"
#include "kernels/cpu/vector_kernels.h"
#include "kernels/neuron_sums.h"

namespace hearth {

/// Ranges that a layer's neurons are cut into. Each has partial sums of its own, so that more of them cost
/// memory traffic (at 16 a 36th of what a 7B layer reads), fewer leave threads without work. Part of the
/// definition of results.
inline constexpr int kNeuronRanges = 16;

/// Neurons of a range: whole words of a NeuronSet and whole groups of CodedColumns.
inline int64_t neuron_range(int64_t n_neurons) {
  return ((n_neurons + kNeuronRanges - 1) / kNeuronRanges + 63) / 64 * 64;
}

class SparseFfn {
 public:
  /// Steps of up to this many tokens may take the way of few tokens.
  static constexpr int kMaxFewTokens = 16;

  SparseFfn(ThreadPool& pool, const MatmulKernels& matmul, const VectorKernels& vector,
            const DownKernels& kernels, const DownSumsKernels& sums_kernels)
      : pool_(pool), matmul_(matmul), vector_(vector), kernels_(kernels), sums_kernels_(sums_kernels) {}

  /// max_cols: the largest of d_model and d_ff.
  void reserve(int max_tokens, int64_t max_cols, Backend& memory);

  void select(const float* values, const float* sizes, int n_tokens, int64_t n_neurons, float at_least,
              NeuronSet& set);

  /// Backend::ffn_neurons for few tokens; quantized: x as MatmulKernels::quantize gives it, or null if no
  /// weight needs it.
  void ffn_few(const FfnNeurons& ffn, const float* x, const std::byte* quantized, int n_tokens,
               const NeuronSet& set, const float* gates, float* out, NeuronCounts& counts);
  /// Backend::down_neurons for few tokens.
  void down_few(const DownColumns& down, const float* values, int n_tokens, const NeuronSet& set, float* out,
                NeuronCounts& counts);

  /// The same to sums of integers, without the bias.
  void ffn_few_sums(const FfnNeurons& ffn, const float* x, const std::byte* quantized, int n_tokens,
                    const NeuronSet& set, const float* gates, const NeuronSums& sums, NeuronCounts& counts);
  void down_few_sums(const DownColumns& down, const float* values, int n_tokens, const NeuronSet& set,
                     const NeuronSums& sums, NeuronCounts& counts);

  /// Neurons of `set` whose act(gate) is not zero; valid until the next call.
  const NeuronSet& pass_gates(const FfnNeurons& ffn, const float* gates, int n_tokens, const NeuronSet& set,
                              NeuronCounts& counts);
  /// Backend::down_neurons for any number of tokens, but that `proposed` is not counted.
  void down_many(const DownColumns& down, const float* values, int n_tokens, const NeuronSet& set, float* out,
                 NeuronCounts& counts);
  /// The same to sums of integers, without the bias.
  void down_many_sums(const DownColumns& down, const float* values, int n_tokens, const NeuronSet& set,
                      const NeuronSums& sums, NeuronCounts& counts);

  // Scratch of the caller, [max_tokens, max_cols] each. pass_gates() uses the second.
  float* gates() { return gates_.floats(); }
  float* values() { return values_.floats(); }
  float* products() { return products_.floats(); }

 private:
  /// What one range found, for NeuronCounts.
  struct RangeCounts {
    int64_t gate_rows, up_rows, down_rows, passed, active;
  };
  /// One call, as its ranges see it.
  struct Call {
    const FfnNeurons* ffn;  // null: values are given
    const DownColumns* down;
    const float* x;
    const std::byte* quantized;
    int n_tokens;
    const NeuronSet* set;
    const float* given;                // [n_tokens, n_neurons] gates, or values; or null
    const ActiveNeurons* found;        // or null
    const NeuronSums* sums = nullptr;  // null: sums of floats
  };
  /// Places [begin, end) of a list of neurons.
  struct Places {
    const int32_t* ids;
    int64_t begin, end;
    int64_t n() const { return end - begin; }
  };

  void run_ranges(const Call& call, NeuronCounts& counts);
  void run_range(const Call& call, int range, int thread);
  Places values_of_range(const Call& call, Places places, RangeCounts& counts);
  void multiply(const Call& call, const Matrix& weight, const float* bias, Places places, float* to);
  Places keep_passed(const Call& call, Places places, RangeCounts& counts);
  void list_active(const Call& call, Places places, int* n_listed, RangeCounts& counts);
  void note_active(const Call& call, int64_t begin, const int* n_listed);
  void add_range(const Call& call, int range, int64_t begin);
  void add_partials(const Call& call, float* out);
  void sum_range(const Call& call, int range, int64_t begin, int thread);
  void run_few_sums(const Call& call, NeuronCounts& counts);
  int64_t* thread_sums(int thread, int64_t n);

  struct ManyCall {
    const DownColumns* down;
    const float* values;
    int n_tokens;
    const NeuronSet* set;
    float* out;              // or null, and then
    const NeuronSums* sums;  // these
  };
  void find_active(const ManyCall& call, NeuronCounts& counts);
  void run_many(const ManyCall& call, NeuronCounts& counts);
  void sum_columns(const ManyCall& call, int64_t column, int64_t n_columns, int first_token, int n_tokens,
                   int thread);
  void fill_panel(const ManyCall& call, size_t word, int64_t column, int64_t n_columns, int thread);
  void add_columns(const ManyCall& call, int64_t column, int64_t n_columns, int first_token, int n_tokens,
                   int thread);
  void add_word(const ManyCall& call, size_t word, int64_t column, int64_t n_columns, int first_token,
                int n_tokens, int thread);

  ThreadPool& pool_;
  const MatmulKernels& matmul_;
  const VectorKernels& vector_;
  const DownKernels& kernels_;
  const DownSumsKernels& sums_kernels_;
  int64_t max_cols_ = 0;
  int max_tokens_ = 0;
  std::vector<float> ones_;  // [max_cols]

  // Of few tokens; rows are max_cols_ apart. Ranges use their own places in them.
  Buffer few_floats_;
  std::vector<int32_t> few_ids_;
  float* few_gates_ = nullptr;     // [kMaxFewTokens] by place
  float* few_ups_ = nullptr;       // [kMaxFewTokens]
  float* list_values_ = nullptr;   // [kMaxFewTokens] of each token's active neurons
  float* partials_ = nullptr;      // [kNeuronRanges, kMaxFewTokens]
  int32_t* passed_ids_ = nullptr;  // [1]
  int32_t* list_ids_ = nullptr;    // [kMaxFewTokens]
  std::array<std::array<int, kMaxFewTokens>, kNeuronRanges> n_listed_{};
  std::array<RangeCounts, kNeuronRanges> range_counts_{};

  // Of few tokens' sums of integers: the first thread has the caller's, the others these.
  Buffer thread_sums_;                            // [n_threads - 1, n_tokens, n_cols]
  Buffer sum_parts_;                              // per thread: [2, n_cols], see DownSumsArgs
  std::vector<uint8_t> summed_;                   // [n_threads] whether the thread has added anything
  std::array<uint32_t, kNeuronRanges> poison_{};  // bit t: token t has a value that is not finite

  // Of many tokens.
  Buffer gates_, values_, products_;
  NeuronSet passed_;
  // What the tokens' active neurons are, word by word of the set, so that a pass over the tokens reads on:
  // bits [words, n_tokens], their values in products_, and where there those of (word, token) begin.
  std::vector<uint64_t> active_;
  std::vector<size_t> starts_;
  std::vector<uint32_t> ranges_of_;         // [max_tokens] bit r: the token has active neurons in range r
  std::vector<uint64_t> any_;               // [words] neurons active for any token
  std::vector<int64_t> counted_;            // [max_tokens]
  std::vector<std::vector<float>> panels_;  // per thread: [2, kPanelNeurons, kPanelWidth], then factors
  std::vector<Buffer> sums_;                // per thread: [2, max_tokens, kPanelWidth]
};

}  // namespace hearth
