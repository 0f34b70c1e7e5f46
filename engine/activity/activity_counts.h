// For every neuron of a model, or every expert of a mixture: how often it was active over some tokens, the sum of its
// values, and how often it stayed active for the next token. All are sums, which can be added to other sums.
//
// An expert is active for a token that chose it, and its value is its weight there. "Neuron" and d_ff stand for either;
// counts of experts also say how many experts are read by several tokens together.
//
// Filled by ActivityCounter, kept in the activity file. Integers only, so that sums are the same in whatever
// order they were made. Plain data; any thread.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace hearth {

/// How many experts tokens read that are computed together: sums over windows of tokens that follow one another in a
/// sequence. Windows of a size do not overlap.
struct ExpertWindows {
  uint32_t n = 0;  // windows
  /// [n_layers] different experts that a window's tokens chose; empty: neurons are counted
  std::vector<uint64_t> read;

  bool operator==(const ExpertWindows&) const = default;
};

struct ActivityCounts {
  ActivityCounts() = default;
  /// n_units: neurons of a layer, or experts.
  ActivityCounts(int n_layers_, int n_units, bool experts = false);

  /// Tokens of a window.
  static constexpr std::array<int, 2> kWindowTokens = {4, 16};

  /// Values are summed in steps of 2^-16, none as more than 2^15: a sum over 2^32 tokens fits its 64 bits.
  static constexpr double kValueStep = 1.0 / 65536;

  int n_layers = 0, d_ff = 0;
  uint32_t n_tokens = 0;  // that were counted
  uint32_t n_pairs = 0;   // of these, tokens whose predecessor in the sequence was counted too
  // [n_layers, d_ff], neurons as the model file numbers them:
  std::vector<uint32_t> active;      // tokens for which the neuron's value was not zero
  std::vector<uint32_t> again;       // pairs for both tokens of which it was not zero
  std::vector<uint64_t> value_sums;  // of |value|, in kValueStep
  std::array<ExpertWindows, kWindowTokens.size()> windows;

  bool empty() const { return n_tokens == 0; }
  bool of_experts() const { return !windows[0].read.empty(); }
  size_t index(int layer, int64_t neuron) const {
    return static_cast<size_t>(layer) * static_cast<size_t>(d_ff) + static_cast<size_t>(neuron);
  }

  /// The share of a layer's neurons that are active for a token, on average.
  double active_share(int layer) const;
  /// Of the neurons active for a token, the share active for the next one too; 0 where nothing was active. A
  /// layer whose neurons come and go by themselves has about their mean activity here; a layer of neurons
  /// that are hot for a while has more.
  double kept_share(int layer) const;

  /// Experts of a layer that a step of `size` tokens of one sequence reads, each once; size: 1, or of kWindowTokens. 0 if
  /// there was no such window.
  double experts_read(int layer, int size) const;
  /// Experts of a layer that `size` tokens read that have nothing to do with each other.
  double experts_read_by_others(int layer, int size) const;

  /// Adds the counts of other tokens. If this is empty it takes the other's shape. Throws std::overflow_error
  /// (one sentence) beyond 2^32 - 1 tokens. REQUIRES: the same shape, unless one is empty.
  void add(const ActivityCounts& other);

  /// The same counts in another order: neuron j of a layer becomes order[layer][j]. An empty order changes
  /// nothing.
  ActivityCounts renumbered(const std::vector<std::vector<int32_t>>& order) const;

  bool operator==(const ActivityCounts&) const = default;
};

}  // namespace hearth
