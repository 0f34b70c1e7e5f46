// The data of the sparse FFN: a layer's neurons, each of which has one row in every matrix, and sets of the
// neurons that tokens want.
//
// A neuron is its gate row, its up row and its down column. For token x it has the value
//   act(gate_j . x) * (up_j . x)        gated FFN
//   act(gate_j . x)                     FFN without a gate, whose only input matrix is called `gate` here
// and adds value * down_j to the output. If the value is zero, the neuron's up and down rows need not be
// read, and this is what sparsity saves. Views own nothing. Used by the engine and every backend.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "kernels/matrix.h"

namespace hearth {

/// A transposed down projection. The matrix [d_model, d_ff] was quantized in weight blocks along d_ff, and
/// all weights keep their values. A weight block becomes a group of neurons that shares a row of scales (and
/// of mins). The weight of neuron j for output c is
///   scale[j / group][c] * (code(j, c) - offset) + min[j / group][c].
/// The codes of neuron j start at codes + j * stride. Codes of 8 bits are int8, with column c at byte c.
/// Codes of 4 bits are unsigned, and 32 columns take 16 bytes: byte i holds column i in its low nibble and
/// column 16 + i in its high nibble.
///
/// Sums over neurons are computed from the codes. For each group, dot and total begin at 0. For each neuron j
/// of the group, dot = fma(value_j, code - offset, dot) and total = total + value_j. Then sum = fma(scale,
/// dot, sum), and if there are mins, sum = fma(total, min, sum). A group without neurons adds nothing.
struct CodedColumns {
  const std::byte* codes = nullptr;
  size_t stride = 0;                  // bytes between neurons
  int bits = 0;                       // 4 or 8
  int offset = 0;                     // subtracted from 4-bit codes: 0, 4 or 8; 0 for 8 bits
  int group = 0;                      // neurons that share scales: 16 or 32
  bool half_scales = false;           // scales and mins are IEEE halves, else floats
  const std::byte* scales = nullptr;  // [n_neurons / group, n_cols_padded]
  const std::byte* mins = nullptr;    // the same shape, or null
  int64_t n_cols_padded = 0;  // d_model rounded up to a multiple of 32; codes and scales from d_model on are
                              // 0
};

/// The down projection, one row per neuron.
struct DownColumns {
  Matrix rows;                  // [d_ff, d_model] in any tensor type (PowerInfer's ffn_down_t); null if coded
  CodedColumns coded;           // used if rows is null
  int64_t n_neurons = 0;        // d_ff
  int64_t n_cols = 0;           // d_model
  const float* bias = nullptr;  // [d_model] or null
  explicit operator bool() const { return n_neurons > 0; }
  /// Where the first neuron begins.
  const std::byte* begin() const { return rows ? rows.data : coded.codes; }
};

/// Identifies a set of neurons in a backend's memory (Backend::make_set). Valid only for the backend that
/// made the set.
class NeuronSetId {
 public:
  NeuronSetId() = default;  // no set
  explicit constexpr NeuronSetId(int index) : index_(index) {}
  size_t index() const { return static_cast<size_t>(index_); }

 private:
  int index_ = -1;
};

/// Returns the next id for a backend that has made n_made sets and has memory for n_reserved. Throws
/// std::logic_error with a sentence if n_made is n_reserved already.
NeuronSetId next_set(size_t n_made, size_t n_reserved);

/// For each token of a step, the neurons of one layer that the token wants, as bits. The set is in host
/// memory and is reused from layer to layer. Movable, not copyable.
class NeuronSet {
 public:
  NeuronSet() = default;
  NeuronSet(NeuronSet&&) = default;
  NeuronSet& operator=(NeuronSet&&) = default;

  /// Allocates memory for at most this many tokens and neurons. Called once.
  void reserve(int max_tokens, int64_t max_neurons) {
    own_.resize(static_cast<size_t>(max_tokens) * words_of(max_neurons));
    reserve_around(own_.data(), max_neurons);
  }
  /// Like reserve(), but the set keeps its bits [max_tokens, words] in `wanted`, memory of the caller to
  /// which a device writes. This memory must outlive the set.
  void reserve_around(uint64_t* wanted, int64_t max_neurons) {
    wanted_ = wanted;
    ids_.resize(static_cast<size_t>(max_neurons));
    any_.resize(words_of(max_neurons));
  }
  /// Begins a set. The caller writes its bits directly, before or after this call, and then calls collect().
  void resize(int n_tokens, int64_t n_neurons) {
    n_tokens_ = n_tokens;
    n_neurons_ = n_neurons;
    n_ids_ = 0;
  }
  /// Begins a set in which no token wants anything.
  void clear(int n_tokens, int64_t n_neurons) {
    resize(n_tokens, n_neurons);
    std::fill_n(wanted_, static_cast<size_t>(n_tokens) * words_of(n_neurons), 0);
  }
  int n_tokens() const { return n_tokens_; }
  int64_t n_neurons() const { return n_neurons_; }

  /// The token's bits [words()], one per neuron; bits from n_neurons() on are 0.
  uint64_t* wanted(int token) { return wanted_ + static_cast<size_t>(token) * words(); }
  const uint64_t* wanted(int token) const { return wanted_ + static_cast<size_t>(token) * words(); }
  size_t words() const { return words_of(n_neurons_); }
  bool wants(int token, int64_t neuron) const {
    return ((wanted(token)[neuron / 64] >> (neuron % 64)) & 1) != 0;
  }

  /// The number of wanted neurons, summed over the tokens.
  int64_t count() const;

  /// The neurons that at least one token wants, ascending. Valid after collect(), which must be called once
  /// the bits are written.
  std::span<const int32_t> ids() const { return {ids_.data(), n_ids_}; }
  void collect();

 private:
  static size_t words_of(int64_t n_neurons) { return static_cast<size_t>((n_neurons + 63) / 64); }
  int n_tokens_ = 0;
  int64_t n_neurons_ = 0;
  std::vector<uint64_t> own_;   // the bits, unless reserve_around() was called
  uint64_t* wanted_ = nullptr;  // [n_tokens, words]
  std::vector<uint64_t> any_;   // [words] scratch of collect()
  std::vector<int32_t> ids_;    // only the first n_ids_ entries are valid
  size_t n_ids_ = 0;
};

/// The neurons that were active in one call of the sparse FFN, and their values. Used to count how often each
/// neuron is active. The caller owns the memory.
struct ActiveNeurons {
  uint64_t* bits = nullptr;  // [n_tokens, words] as in NeuronSet; a bit is set if the value is not zero. All
                             // words are written
  float* values = nullptr;   // [n_tokens, d_ff]: only entries of active neurons are written
};

/// Counts of what a layer's sparse FFN read and found, summed over calls. A row that several tokens want
/// counts once per step; a neuron counts once for each token that wants it.
struct NeuronCounts {
  int64_t gate_rows = 0, up_rows = 0, down_rows = 0;  // read from memory
  int64_t cold_down_rows = 0;                         // down rows that the CPU read, if a device shares the
                                                      // layer
  int64_t proposed = 0;                               // neurons wanted by a token
  int64_t passed = 0;  // proposed neurons with act(gate) != 0 (ffn_neurons only)
  int64_t active = 0;  // proposed neurons whose value was not zero
  /// If not null, each call writes its active neurons here. Unlike the counts, they are not summed over
  /// calls. If the CPU computes the layer, they are complete when the call returns. If a device takes part,
  /// this memory holds only the CPU's share until the device reports all active neurons
  /// (ComputeDevice::found).
  const ActiveNeurons* found = nullptr;
};

}  // namespace hearth
