// What the sparse FFN works on: a layer's neurons, one row each in every matrix, and the sets of them that
// matter.
//
// A neuron is its gate row, its up row and its down column. For token x it has the value
//   act(gate_j . x) * (up_j . x)        gated FFN
//   act(gate_j . x)                     FFN without a gate, whose one input matrix stands as `gate` here
// and adds value * down_j to the output. A value of zero means that up and down need not be read: this is
// what sparsity saves. Views never own. Used by the engine and every backend.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "kernels/matrix.h"

namespace hearth {

/// A down projection [d_model, d_ff] whose blocks ran along d_ff, turned on its side without changing a
/// weight: blocks become groups of neurons that share a row of scales (and mins). Neuron j's weight for
/// output c is
///   scale[j / group][c] * (code(j, c) - offset) + min[j / group][c].
/// Codes of neuron j start at codes + j * stride: 8 bits: int8, column c at byte c. 4 bits: unsigned, per 32
/// columns 16 bytes, byte i holds column i in its low and column 16 + i in its high nibble.
///
/// Sums over neurons work on codes: per group, dot = fma(value_j, code - offset, dot) over the neurons of the
/// group, from 0, and total = total + value_j; then sum = fma(scale, dot, sum), and sum = fma(total, min,
/// sum) where there are mins. A group without neurons adds nothing.
struct CodedColumns {
  const std::byte* codes = nullptr;
  size_t stride = 0;                  // bytes between neurons
  int bits = 0;                       // 4 or 8
  int offset = 0;                     // what 4-bit codes are above their values: 0, 4 or 8; 0 for 8 bits
  int group = 0;                      // neurons that share scales: 16 or 32
  bool half_scales = false;           // scales and mins are IEEE halves, else floats
  const std::byte* scales = nullptr;  // [n_neurons / group, n_cols_padded]
  const std::byte* mins = nullptr;    // the same shape, or null
  int64_t n_cols_padded = 0;  // d_model rounded up to a multiple of 32; codes and scales behind d_model are 0
};

/// The down projection, one row per neuron.
struct DownColumns {
  Matrix rows;                  // [d_ff, d_model] in any tensor type (PowerInfer's ffn_down_t); null if coded
  CodedColumns coded;           // used if rows is null
  int64_t n_neurons = 0;        // d_ff
  int64_t n_cols = 0;           // d_model
  const float* bias = nullptr;  // [d_model] or null
  explicit operator bool() const { return n_neurons > 0; }
};

/// Names a set of neurons in the memory of the backend that made it (Backend::make_set). A value; of no
/// meaning to another backend.
class NeuronSetId {
 public:
  NeuronSetId() = default;  // no set
  explicit constexpr NeuronSetId(int index) : index_(index) {}
  size_t index() const { return static_cast<size_t>(index_); }

 private:
  int index_ = -1;
};

/// The next id of a backend that has made n_made sets of the n_reserved there is memory for. Throws
/// std::logic_error, a sentence, if those are all.
NeuronSetId next_set(size_t n_made, size_t n_reserved);

/// Neurons of one layer for one step, in host memory: which token wants which. Reused from layer to layer.
/// Moves, but is not copied.
class NeuronSet {
 public:
  NeuronSet() = default;
  NeuronSet(NeuronSet&&) = default;
  NeuronSet& operator=(NeuronSet&&) = default;

  /// Takes memory for sets of at most so many tokens and neurons. Once.
  void reserve(int max_tokens, int64_t max_neurons) {
    own_.resize(static_cast<size_t>(max_tokens) * words_of(max_neurons));
    reserve_around(own_.data(), max_neurons);
  }
  /// The same with the bits in memory of someone else, [max_tokens, words], which outlives the set: a device
  /// writes them there.
  void reserve_around(uint64_t* wanted, int64_t max_neurons) {
    wanted_ = wanted;
    ids_.resize(static_cast<size_t>(max_neurons));
    any_.resize(words_of(max_neurons));
  }
  /// Begins a set whose bits are written already, or will be; collect() comes next.
  void resize(int n_tokens, int64_t n_neurons) {
    n_tokens_ = n_tokens;
    n_neurons_ = n_neurons;
    n_ids_ = 0;
  }
  /// Begins a set of no token wanting anything.
  void clear(int n_tokens, int64_t n_neurons) {
    resize(n_tokens, n_neurons);
    std::fill_n(wanted_, static_cast<size_t>(n_tokens) * words_of(n_neurons), 0);
  }
  int n_tokens() const { return n_tokens_; }
  int64_t n_neurons() const { return n_neurons_; }

  /// One bit per neuron, [words()]; bits at and behind n_neurons() are 0.
  uint64_t* wanted(int token) { return wanted_ + static_cast<size_t>(token) * words(); }
  const uint64_t* wanted(int token) const { return wanted_ + static_cast<size_t>(token) * words(); }
  size_t words() const { return words_of(n_neurons_); }
  bool wants(int token, int64_t neuron) const {
    return ((wanted(token)[neuron / 64] >> (neuron % 64)) & 1) != 0;
  }

  /// Neurons that tokens want, summed over the tokens.
  int64_t count() const;

  /// Neurons that any token wants, ascending. Valid after collect(), which whoever filled the bits calls.
  std::span<const int32_t> ids() const { return {ids_.data(), n_ids_}; }
  void collect();

 private:
  static size_t words_of(int64_t n_neurons) { return static_cast<size_t>((n_neurons + 63) / 64); }
  int n_tokens_ = 0;
  int64_t n_neurons_ = 0;
  std::vector<uint64_t> own_;   // the bits, unless they are someone else's
  uint64_t* wanted_ = nullptr;  // [n_tokens, words]
  std::vector<uint64_t> any_;   // [words] scratch of collect()
  std::vector<int32_t> ids_;    // the first n_ids_ count
  size_t n_ids_ = 0;
};

/// Which neurons one call of the sparse FFN found active, and their values: what counting single neurons is
/// made of. The memory is the caller's.
struct ActiveNeurons {
  uint64_t* bits = nullptr;  // [n_tokens, words] as NeuronSet has them: the value was not zero. All written
  float* values = nullptr;   // [n_tokens, d_ff]: of those neurons; the others' are left as they were
};

/// What a layer's sparse FFN read and found, summed over calls. Rows are counted once a step, whoever wants
/// them; neurons once for each token that wants them.
struct NeuronCounts {
  int64_t gate_rows = 0, up_rows = 0, down_rows = 0;  // read from memory
  int64_t cold_down_rows = 0;                         // of these, by the CPU beside a device
  int64_t proposed = 0;                               // wanted by a token
  int64_t passed = 0;                                 // of these, act(gate) was not zero (ffn_neurons only)
  int64_t active = 0;                                 // of these, the value was not zero
  /// Not summed; null: not wanted. The CPU has filled it when a call returns. A device tells later
  /// (ComputeDevice::found), and until then uses it for the CPU's share of the neurons.
  const ActiveNeurons* found = nullptr;
};

}  // namespace hearth
