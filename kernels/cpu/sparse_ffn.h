// The sparse FFN on the CPU: divides the neurons of a step among threads, and defines the order in which they
// are summed.
//
// The order of a token's sum does not depend on threads, batch, lists or the way it is computed. Neurons are
// cut by number into kNeuronRanges ranges of neuron_range() neurons. Within a range, sum = fma(value_j, w_jc,
// sum) over the token's active neurons in ascending order, from 0 (for CodedColumns as kernels/neurons.h
// says). Then out_c += sum, range by range, for ranges where the token has an active neuron, and last the
// bias. w is the weight dequantized to float.
//
// There are two ways to compute this, which give the same bits:
//   few tokens (decode): a thread takes a range and does all of it: gate rows, then up rows of neurons that
//       passed the gate, then down rows of active neurons. Each row is read once, into the range's own
//       partial sums; then the partial sums are added up.
//   many tokens (prefill): matmul multiplies the gate and up rows. Then threads take columns of the down
//       projection; each row's part is dequantized once and added for all tokens that want it.
//
// If another device has a share of the neurons, contributions are summed as integers instead
// (kernels/neuron_sums.h), so their order does not matter. For few tokens, threads then take pieces of the
// list of wanted neurons, because ranges of all neurons could be empty where the other device has them. Owned
// by CpuBackend; called by the engine thread.
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

/// The number of ranges that a layer's neurons are cut into. Each range has its own partial sums, so more
/// ranges cost memory traffic (16 ranges add 1/36 of what a 7B layer reads), and fewer leave threads without
/// work. Results depend on this number.
inline constexpr int kNeuronRanges = 16;

/// Neurons of a range: whole words of a NeuronSet and whole groups of CodedColumns.
inline int64_t neuron_range(int64_t n_neurons) {
  return ((n_neurons + kNeuronRanges - 1) / kNeuronRanges + 63) / 64 * 64;
}

/// How many pieces a list of neurons is cut into if sums are integers: two per thread balance equal cores,
/// four per thread unequal ones. A piece of few neurons would cost more to sum up than to read.
inline int64_t n_sum_pieces(int64_t n_listed, int n_threads, bool speeds_differ) {
  constexpr int64_t kLeastNeurons = 24;
  const int64_t n = n_listed / kLeastNeurons, most = (speeds_differ ? 4 : 2) * int64_t{n_threads};
  return n < 1 ? 1 : n < most ? n : most;
}

class SparseFfn {
 public:
  /// The most tokens of a step that may use the path for few tokens.
  static constexpr int kMaxFewTokens = 16;

  SparseFfn(ThreadPool& pool, const MatmulKernels& matmul, const VectorKernels& vector,
            const DownKernels& kernels, const DownSumsKernels& sums_kernels)
      : pool_(pool), matmul_(matmul), vector_(vector), kernels_(kernels), sums_kernels_(sums_kernels) {}

  /// max_cols: the largest of d_model and d_ff.
  void reserve(int max_tokens, int64_t max_cols, Backend& memory);

  void select(const float* values, const float* sizes, int n_tokens, int64_t n_neurons, float at_least,
              NeuronSet& set);

  /// Backend::ffn_neurons for few tokens. quantized: x as MatmulKernels::quantize gives it, or null if no
  /// weight needs it.
  void ffn_few(const FfnNeurons& ffn, const float* x, const std::byte* quantized, int n_tokens,
               const NeuronSet& set, const float* gates, float* out, NeuronCounts& counts);
  /// Backend::down_neurons for few tokens.
  void down_few(const DownColumns& down, const float* values, int n_tokens, const NeuronSet& set, float* out,
                NeuronCounts& counts);

  /// Like ffn_few() and down_few(), but adds to integer sums and does not add the bias.
  void ffn_few_sums(const FfnNeurons& ffn, const float* x, const std::byte* quantized, int n_tokens,
                    const NeuronSet& set, const float* gates, const NeuronSums& sums, NeuronCounts& counts);
  void down_few_sums(const DownColumns& down, const float* values, int n_tokens, const NeuronSet& set,
                     const NeuronSums& sums, NeuronCounts& counts);

  /// Returns the neurons of `set` whose act(gate) is not zero; valid until the next call.
  const NeuronSet& pass_gates(const FfnNeurons& ffn, const float* gates, int n_tokens, const NeuronSet& set,
                              NeuronCounts& counts);
  /// Returns the neurons of `set` whose |values| [n_tokens, n_neurons] times sizes [n_neurons] are not below
  /// at_least; valid until the next call.
  const NeuronSet& keep_from(const float* values, const float* sizes, int n_tokens, const NeuronSet& set,
                             float at_least);
  /// Backend::down_neurons for any number of tokens, except that `proposed` is not counted.
  void down_many(const DownColumns& down, const float* values, int n_tokens, const NeuronSet& set, float* out,
                 NeuronCounts& counts);
  /// Like down_many(), but adds to integer sums and does not add the bias.
  void down_many_sums(const DownColumns& down, const float* values, int n_tokens, const NeuronSet& set,
                      const NeuronSums& sums, NeuronCounts& counts);

  // Scratch for the caller, [max_tokens, max_cols] each. pass_gates() overwrites the second one.
  float* gates() { return gates_.floats(); }
  float* values() { return values_.floats(); }
  float* products() { return products_.floats(); }

 private:
  /// The counts of one range, for NeuronCounts.
  struct RangeCounts {
    int64_t gate_rows, up_rows, down_rows, passed, active;
  };
  /// The results of one range, or of one piece of a list, besides the sums.
  struct Range {
    RangeCounts counts{};
    std::array<int, kMaxFewTokens> n_listed{};  // how many active neurons each token has
    uint32_t poison = 0;                        // bit t: token t has a value that is not finite
  };
  /// The arguments of one call for few tokens, as its ranges see it.
  struct Call {
    const FfnNeurons* ffn;  // null: `given` has the values
    const DownColumns* down;
    const float* x;
    const std::byte* quantized;
    int n_tokens;
    const NeuronSet* set;
    const float* given;                // [n_tokens, n_neurons] gates, or values if ffn is null; may be null
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
  std::vector<Range> ranges_;      // [kNeuronRanges], or the most that n_sum_pieces() gives

  // Integer sums for few tokens: the first thread adds to the caller's sums, each other thread to its own.
  Buffer thread_sums_;           // [n_threads - 1, n_tokens, n_cols]
  Buffer sum_parts_;             // per thread: [3, n_cols], see DownSumsArgs
  std::vector<uint8_t> summed_;  // [n_threads] whether the thread has added anything

  // Scratch for many tokens.
  Buffer gates_, values_, products_;
  NeuronSet passed_;
  // The tokens' active neurons, ordered by word of the set and then by token, so that a loop over tokens
  // reads consecutive memory. active_ has the bits [words, n_tokens], products_ the values, and starts_ the
  // index of the first value of each (word, token).
  std::vector<uint64_t> active_;
  std::vector<size_t> starts_;
  std::vector<uint32_t> ranges_of_;  // [max_tokens] bit r: the token has active neurons in range r
  std::vector<uint64_t> any_;        // [words] neurons that are active for any token
  std::vector<int64_t> counted_;     // [max_tokens]
  std::vector<std::array<TermPanel, 2>> term_panels_;  // per thread
  std::vector<std::vector<float>> panels_;  // per thread: [2, kPanelNeurons, kPanelWidth], then factors
  std::vector<Buffer> sums_;                // per thread: [2, max_tokens, kPanelWidth]
};

}  // namespace hearth
