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

  /// The checkpoint's place of value head h of a file in which value head h uses key head h mod n_k (the
  /// order of Qwen3.5's files).
  int64_t stored_head(int64_t h) const { return h % n_k * (n_v / n_k) + h / n_k; }
  /// The checkpoint's row of a row of such a file, in a tensor of n_rows rows: of queries, keys and values;
  /// of values; or of one row for each value head. nullopt if n_rows is another number.
  std::optional<int64_t> stored_row(int64_t row, int64_t n_rows) const;
  /// The checkpoint's row of row `row` of all queries, keys, values and gates, if the checkpoint's rows are
  /// grouped by key heads: its query, its key, its values, their gates (Qwen3-Next).
  int64_t grouped_row(int64_t row) const;
};

}  // namespace hearth::convert
