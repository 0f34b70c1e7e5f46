// Cosines and sines for the positions of a step, computed once and used by every layer.
//
// Owned by a backend, used by its rope(). Engine thread; the pool's threads compute a table.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "kernels/backend.h"
#include "kernels/cpu/threads/thread_pool.h"

namespace hearth {

class RopeTable {
 public:
  /// Allocates memory for this many positions of up to max_rot rotating dimensions.
  void reserve(int max_positions, int max_rot);

  /// Fills row(i) with the cosines and sines for positions[i], unless the table has these positions already.
  /// Angles are doubles, and the C library's cos and sin reduce them exactly. At position 131072, an angle in
  /// float would be off by 2^-7 radians. REQUIRES: the arguments are within the bounds given to reserve();
  /// rope.kind is not kNone.
  void prepare(std::span<const int32_t> positions, const Rope& rope, ThreadPool& pool);

  /// Floats of a row.
  static int64_t row_floats_of(const Rope& rope) {
    return rope.kind == RopeKind::kInterleaved ? 2 * rope.n_rot : rope.n_rot;
  }

  /// Whether the table was computed with rope's kind, magnitude and frequencies. The positions do not matter.
  bool is_of(const Rope& rope) const;

  /// [2 * n_rot] for kInterleaved, [n_rot] for kHalves: see VectorKernels::rotate.
  const float* row(int64_t i) const { return values_.data() + i * row_floats_; }

 private:
  void fill(int64_t i);

  RopeKind kind_ = RopeKind::kNone;
  float magnitude_ = 0.0f;
  int64_t row_floats_ = 0;
  std::vector<float> inv_freq_;     // the frequencies the table was computed with
  std::vector<int32_t> positions_;  // the positions of its rows
  std::vector<float> values_;
};

/// One table for each rotary embedding of a model, because layers with a window may have their own embedding.
/// Tables stay valid from step to step.
class RopeTables {
 public:
  /// The number of rotary embeddings that layers can use in turn without recomputing tables.
  static constexpr int kTables = 2;

  /// See RopeTable.
  void reserve(int max_positions, int max_rot);
  /// Fills a table for `positions` and returns its number; see RopeTable::prepare.
  int prepare(std::span<const int32_t> positions, const Rope& rope, ThreadPool& pool);
  const RopeTable& table(int number) const { return tables_[static_cast<size_t>(number)]; }

 private:
  std::array<RopeTable, kTables> tables_;
  int next_ = 0;  // the table to overwrite for the next embedding that has no table
};

}  // namespace hearth
