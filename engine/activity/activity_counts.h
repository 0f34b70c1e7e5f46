// Counts for every neuron of a model, or every expert of a mixture: how often it was active, the sum of its
// values, and how often it stayed active for the next token. All of these are sums, so counts can be added.
//
// An expert is active for a token that chose it, and its value is its weight for that token. In this file,
// "neuron" and d_ff also mean experts. Counts of experts also include how many different experts neighboring
// tokens chose (ExpertWindows).
//
// Filled by ActivityCounter, stored in the activity file. Integers only, so that sums do not depend on the
// order of additions. Plain data; any thread.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace hearth {

/// Counts the different experts that are read if the tokens of a window are computed together. A window
/// consists of consecutive tokens of one sequence. Windows of one size do not overlap.
struct ExpertWindows {
  uint32_t n = 0;  // windows
  /// [n_layers] Numbers of different experts that a window's tokens chose, summed over the windows. Empty if
  /// neurons are counted.
  std::vector<uint64_t> read;

  bool operator==(const ExpertWindows&) const = default;
};

struct ActivityCounts {
  ActivityCounts() = default;
  /// n_units: neurons (or experts) per layer.
  ActivityCounts(int n_layers_, int n_units, bool experts = false);

  /// Window sizes in tokens.
  static constexpr std::array<int, 2> kWindowTokens = {4, 16};

  /// Values are summed in steps of 2^-16 and capped at 2^15, so a sum over 2^32 tokens fits 64 bits.
  static constexpr double kValueStep = 1.0 / 65536;

  int n_layers = 0, d_ff = 0;
  uint32_t n_tokens = 0;  // counted tokens
  uint32_t n_pairs = 0;   // counted tokens whose predecessor in the sequence was also counted
  // The next three members are [n_layers, d_ff], indexed by a neuron's number in the model file.
  std::vector<uint32_t> active;      // tokens for which the neuron's value was nonzero
  std::vector<uint32_t> again;       // pairs for which the neuron's value was nonzero for both tokens
  std::vector<uint64_t> value_sums;  // sums of |value|, in units of kValueStep
  std::array<ExpertWindows, kWindowTokens.size()> windows;

  bool empty() const { return n_tokens == 0; }
  bool of_experts() const { return !windows[0].read.empty(); }
  size_t index(int layer, int64_t neuron) const {
    return static_cast<size_t>(layer) * static_cast<size_t>(d_ff) + static_cast<size_t>(neuron);
  }

  /// The share of a layer's neurons that are active for a token, on average.
  double active_share(int layer) const;
  /// The share of a token's active neurons that are active for the next token too; 0 if no neuron was active.
  /// If neurons fire independently of the previous token, it is about equal to active_share(). If neurons
  /// stay active for a while, it is higher.
  double kept_share(int layer) const;

  /// The mean number of different experts of a layer that are read by a step with `size` tokens of one
  /// sequence. size: 1 or one of kWindowTokens. Returns 0 if no window of this size was counted.
  double experts_read(int layer, int size) const;
  /// The expected number of different experts of a layer that are read by a step with `size` tokens of
  /// different sequences, which choose experts independently of each other.
  double experts_read_by_others(int layer, int size) const;

  /// Adds `other`, the counts of other tokens. If this object is empty, it takes the shape of `other`. Throws
  /// std::overflow_error (one sentence) beyond 2^32 - 1 tokens. REQUIRES: equal shapes, unless one is empty.
  void add(const ActivityCounts& other);

  /// Returns the counts with neuron j of a layer renumbered to order[layer][j]. An empty order changes
  /// nothing.
  ActivityCounts renumbered(const std::vector<std::vector<int32_t>>& order) const;

  bool operator==(const ActivityCounts&) const = default;
};

}  // namespace hearth
