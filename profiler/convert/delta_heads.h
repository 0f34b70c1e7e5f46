// The heads of a gated delta net's projections, and where a file's rows lie in a checkpoint.
#pragma once

#include <cstdint>
#include <optional>

#include "profiler/convert/config.h"

namespace hearth::convert {

/// Keys and queries have n_k heads of d_k numbers; values and their gates have n_v heads of d_v numbers. In
/// checkpoints, value heads that share a key head are neighbors.
struct DeltaHeads {
  int64_t n_k = 0, n_v = 0, d_k = 0, d_v = 0;

  /// Throws std::runtime_error (one sentence) if a number is missing or the heads do not divide.
  explicit DeltaHeads(const Config& config);

  /// Rows of all queries and keys, and of all values.
  int64_t key_rows() const { return 2 * n_k * d_k; }
  int64_t value_rows() const { return n_v * d_v; }

  /// Returns the index in the checkpoint of the file's value head h. In the file, value head h uses key head
  /// h mod n_k, as in the files of Qwen3.5.
  int64_t stored_head(int64_t h) const { return h % n_k * (n_v / n_k) + h / n_k; }
  /// Returns the index in the checkpoint of such a file's row `row`. n_rows tells what the tensor has: the
  /// rows of queries, keys and values; those of values; or one row for each value head. nullopt for other
  /// numbers.
  std::optional<int64_t> stored_row(int64_t row, int64_t n_rows) const;
  /// For checkpoints like Qwen3-Next's, which store for each key head its query, its key, its values and
  /// their gates. Returns the index in the checkpoint of row `row` of all queries, keys, values and gates.
  int64_t grouped_row(int64_t row) const;
};

}  // namespace hearth::convert
