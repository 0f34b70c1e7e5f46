// The sparse FFN on the CPU: divides the neurons of a step among threads, and defines the order in which they
// are summed.
//
// The order in which a token's neurons are summed does not depend on threads, on the batch, or on which of
// the two ways below computes the sum. Neurons are divided by their number into kNeuronRanges ranges of
// neuron_range() neurons. Within a range, sum begins at 0, and sum = fma(value_j, w_jc, sum) for each of the
// token's active neurons j in ascending order, where w_jc is the weight for column c, dequantized to float
// (kernels/neurons.h defines the sum for CodedColumns). Then out_c += sum for each range in which the token
// has an active neuron, in order. The bias is added last.
//
// There are two ways to compute this sum, which give the same bits:
//   few tokens (decode): a thread takes a range and computes all of it: the gate rows, the up rows of neurons
//       that passed the gate, and the down rows of active neurons, which are added to the range's own partial
//       sums. Each row is read once. At the end, the partial sums of all ranges are added up.
//   many tokens (prefill): matmul multiplies the gate and up rows. Then each thread takes some columns of the
//       down projection. It dequantizes these columns of a row once, and adds them for all tokens for which
//       the row's neuron is active.
//
// If another device has a share of the neurons, contributions are summed as integers instead
// (kernels/neuron_sums.h), so their order does not matter. For few tokens, threads then divide the list of
// the CPU's neurons instead of taking ranges, because all neurons of a range could be on the other device.
// Owned by CpuBackend; called by the engine thread.
#pragma once

#include <array>
#include <vector>

#include "kernels/backend.h"
#include "kernels/cpu/isa/down_kernels.h"
#include "kernels/cpu/isa/matmul_kernels.h"
#include "kernels/cpu/isa/vector_kernels.h"
#include "kernels/cpu/threads/thread_pool.h"
#include "kernels/neuron_sums.h"

namespace hearth {

/// The number of ranges into which a layer's neurons are divided. Each range has its own partial sums, so
/// more ranges cost memory traffic, and fewer ranges leave threads without work. With 16 ranges, the partial
/// sums add 1/36 to the bytes that a layer of a 7B model reads. Results depend on this number.
inline constexpr int kNeuronRanges = 16;

/// Returns the neurons per range, which are whole words of a NeuronSet and whole groups of CodedColumns.
inline int64_t neuron_range(int64_t n_neurons) {
  return ((n_neurons + kNeuronRanges - 1) / kNeuronRanges + 63) / 64 * 64;
}

/// Returns the number of pieces into which a list of neurons is divided if sums are integers. Two pieces per
/// thread balance equal cores, and four balance unequal cores. For a piece of very few neurons, adding up its
/// sums would take longer than reading its weights.
inline int64_t n_sum_pieces(int64_t n_listed, int n_threads, bool speeds_differ) {
  constexpr int64_t kLeastNeurons = 24;
  const int64_t n = n_listed / kLeastNeurons, most = (speeds_differ ? 4 : 2) * int64_t{n_threads};
  return n < 1 ? 1 : n < most ? n : most;
}

class SparseFfn {
 public:
  /// The maximum number of tokens of a step that may use the path for few tokens.
  static constexpr int kMaxFewTokens = 16;

  SparseFfn(ThreadPool& pool, const MatmulKernels& matmul, const VectorKernels& vector,
            const DownKernels& kernels, const DownSumsKernels& sums_kernels)
      : pool_(pool), matmul_(matmul), vector_(vector), kernels_(kernels), sums_kernels_(sums_kernels) {}

  /// max_cols: the largest of d_model and d_ff.
  void reserve(int max_tokens, int64_t max_cols, Backend& memory);

  void select(const float* values, const float* sizes, int n_tokens, int64_t n_neurons, float at_least,
              NeuronSet& set);

  /// Implements Backend::ffn_neurons() for few tokens. quantized: x quantized by MatmulKernels::quantize, or
  /// null if all weights are floats.
  void ffn_few(const FfnNeurons& ffn, const float* x, const std::byte* quantized, int n_tokens,
               const NeuronSet& set, const float* gates, float* out, NeuronCounts& counts);
  /// Implements Backend::down_neurons() for few tokens.
  void down_few(const DownColumns& down, const float* values, int n_tokens, const NeuronSet& set, float* out,
                NeuronCounts& counts);

  /// Like ffn_few() and down_few(), but adds to integer sums and does not add the bias.
  void ffn_few_sums(const FfnNeurons& ffn, const float* x, const std::byte* quantized, int n_tokens,
                    const NeuronSet& set, const float* gates, const NeuronSums& sums, NeuronCounts& counts);
  void down_few_sums(const DownColumns& down, const float* values, int n_tokens, const NeuronSet& set,
                     const NeuronSums& sums, NeuronCounts& counts);

  /// Returns the neurons of `set` whose act(gate) is not zero. The result is valid until the next call.
  const NeuronSet& pass_gates(const FfnNeurons& ffn, const float* gates, int n_tokens, const NeuronSet& set,
                              NeuronCounts& counts);
  /// Returns each token's neurons of `set` for which |value| * size is not below at_least; valid until the
  /// next call. values [n_tokens, n_neurons], sizes [n_neurons].
  const NeuronSet& keep_from(const float* values, const float* sizes, int n_tokens, const NeuronSet& set,
                             float at_least);
  /// Like Backend::down_neurons, for any number of tokens, but does not count NeuronCounts::proposed.
  void down_many(const DownColumns& down, const float* values, int n_tokens, const NeuronSet& set, float* out,
                 NeuronCounts& counts);
  /// Like down_many(), but adds to integer sums and does not add the bias.
  void down_many_sums(const DownColumns& down, const float* values, int n_tokens, const NeuronSet& set,
                      const NeuronSums& sums, NeuronCounts& counts);

  // Scratch for the caller, [max_tokens, max_cols] each. pass_gates() overwrites values().
  float* gates() { return gates_.floats(); }
  float* values() { return values_.floats(); }
  float* products() { return products_.floats(); }

 private:
  /// The counts of one range, for NeuronCounts.
  struct RangeCounts {
    int64_t gate_rows, up_rows, down_rows, passed, active;
  };
  /// The results of one range, or of one piece of a list, apart from the sums.
  struct Range {
    RangeCounts counts{};
    std::array<int, kMaxFewTokens> n_listed{};  // number of active neurons of each token
    uint32_t poison = 0;                        // bit t: token t has a value that is not finite
  };
  /// The arguments of one call for few tokens, common to all ranges.
  struct Call {
    const FfnNeurons* ffn;  // null: `given` has the values
    const DownColumns* down;
    const float* x;
    const std::byte* quantized;
    int n_tokens;
    const NeuronSet* set;
    const float* given;                // [n_tokens, n_neurons] gates or null; values if ffn is null
    const ActiveNeurons* found;        // or null
    const NeuronSums* sums = nullptr;  // null: sums of floats
  };
  /// Indices [begin, end) of a list of neurons.
  struct Places {
    const int32_t* ids;
    int64_t begin, end;
    int64_t n() const { return end - begin; }
  };

  void run_ranges(const Call& call, int64_t n_ranges, NeuronCounts& counts);
  void run_range(const Call& call, Places places, int64_t range, int thread);
  Places range_of(const Call& call, int64_t range) const;
  Places piece_of(const Call& call, int64_t piece, int64_t n_pieces) const;
  Places values_of_range(const Call& call, Places places, RangeCounts& counts);
  void multiply(const Call& call, const Matrix& weight, const float* bias, Places places, float* to);
  Places keep_passed(const Call& call, Places places, RangeCounts& counts);
  void list_active(const Call& call, Places places, int* n_listed, RangeCounts& counts);
  void note_active(const Call& call, int64_t begin, const int* n_listed);
  void add_range(const Call& call, int64_t range, int64_t begin);
  void add_partials(const Call& call, float* out);
  void sum_range(const Call& call, int64_t range, int64_t begin, int thread);
  void run_few_sums(const Call& call, NeuronCounts& counts);
  int64_t* thread_sums(int thread, int64_t n);

  struct ManyCall {
    const DownColumns* down;
    const float* values;
    int n_tokens;
    const NeuronSet* set;
    float* out;              // null if sums are integers
    const NeuronSums* sums;  // null if sums are floats
  };
  void find_active(const ManyCall& call, NeuronCounts& counts);
  void run_many(const ManyCall& call, NeuronCounts& counts);
  void sum_columns(const ManyCall& call, int64_t column, int64_t n_columns, int first_token, int n_tokens,
                   int thread);
  void sum_term_columns(const ManyCall& call, int64_t column, int64_t n_columns, int first_token,
                        int n_tokens, int thread);
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

  // Scratch for few tokens; rows are max_cols_ apart. Each range uses its own columns.
  Buffer few_floats_;
  std::vector<int32_t> few_ids_;
  float* few_gates_ = nullptr;     // [kMaxFewTokens] by list index
  float* few_ups_ = nullptr;       // [kMaxFewTokens]
  float* list_values_ = nullptr;   // [kMaxFewTokens] values of each token's active neurons
  float* partials_ = nullptr;      // [kNeuronRanges, kMaxFewTokens]
  int32_t* passed_ids_ = nullptr;  // [1]
  int32_t* list_ids_ = nullptr;    // [kMaxFewTokens]
  std::vector<Range> ranges_;      // [kNeuronRanges], or the maximum of n_sum_pieces()

  // Integer sums for few tokens: thread 0 adds to the caller's sums, and each other thread adds to sums of
  // its own.
  Buffer thread_sums_;           // [n_threads - 1, n_tokens, n_cols]
  Buffer sum_parts_;             // per thread: [3, n_cols], see DownSumsArgs
  std::vector<uint8_t> summed_;  // [n_threads] whether the thread has added anything

  // Scratch for many tokens.
  Buffer gates_, values_, products_;
  NeuronSet passed_;
  // The tokens' active neurons, ordered by word of the set and then by token, so that a loop over tokens
  // reads consecutive memory. active_ has the bits, [words, n_tokens]. products_ has the values, and starts_
  // [words, n_tokens] has the index of the first value of each word and token.
  std::vector<uint64_t> active_;
  std::vector<size_t> starts_;
  std::vector<uint32_t> ranges_of_;  // [max_tokens] bit r: the token has active neurons in range r
  std::vector<uint64_t> any_;        // [words] bits of the neurons that are active for at least one token
  std::vector<int64_t> counted_;     // [max_tokens]
  std::vector<std::array<TermPanel, 2>> term_panels_;  // per thread
  std::vector<std::vector<float>> panels_;  // per thread: [2, kPanelNeurons, kPanelWidth], then factors
  std::vector<Buffer> sums_;                // per thread: [2, max_tokens, kPanelWidth]
};

}  // namespace hearth
