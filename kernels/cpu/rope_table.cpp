// Implements RopeTable and RopeTables.
#include "kernels/cpu/rope_table.h"

#include <algorithm>
#include <cmath>

namespace hearth {

void RopeTable::reserve(int max_positions, int max_rot) {
  positions_.reserve(static_cast<size_t>(max_positions));
  inv_freq_.reserve(static_cast<size_t>(max_rot / 2));
  values_.resize(static_cast<size_t>(max_positions) * static_cast<size_t>(max_rot) * 2);
}

bool RopeTable::is_of(const Rope& rope) const {
  const std::span<const float> inv_freq(rope.inv_freq, static_cast<size_t>(rope.n_rot / 2));
  return kind_ == rope.kind && magnitude_ == rope.magnitude && std::ranges::equal(inv_freq_, inv_freq);
}

void RopeTable::prepare(std::span<const int32_t> positions, const Rope& rope, ThreadPool& pool) {
  // Compare contents and not addresses, because the caller may reuse its memory for other positions.
  if (is_of(rope) && std::ranges::equal(positions_, positions)) return;
  kind_ = rope.kind;
  magnitude_ = rope.magnitude;
  row_floats_ = row_floats_of(rope);
  inv_freq_.assign(rope.inv_freq, rope.inv_freq + rope.n_rot / 2);
  positions_.assign(positions.begin(), positions.end());
  // A position takes 1 to 2 microseconds (32 to 64 angles of 30 ns each), so a piece of 4 positions takes
  // long enough to give it to another thread.
  constexpr int64_t kPositionsPerPiece = 4;
  pool.for_each_piece(static_cast<int64_t>(positions_.size()), kPositionsPerPiece,
                      [&](int64_t begin, int64_t end, int) {
                        for (int64_t i = begin; i < end; ++i) fill(i);
                      });
}

void RopeTable::fill(int64_t i) {
  const size_t n_angles = inv_freq_.size();
  const double position = positions_[static_cast<size_t>(i)];
  float* out = values_.data() + i * row_floats_;
  for (size_t a = 0; a < n_angles; ++a) {
    const double angle = position * static_cast<double>(inv_freq_[a]);
    const float cosine = static_cast<float>(std::cos(angle) * static_cast<double>(magnitude_));
    const float sine = static_cast<float>(std::sin(angle) * static_cast<double>(magnitude_));
    if (kind_ == RopeKind::kHalves) {
      out[a] = cosine;
      out[n_angles + a] = sine;
    } else {
      out[2 * a] = out[2 * a + 1] = cosine;
      out[2 * n_angles + 2 * a] = -sine;
      out[2 * n_angles + 2 * a + 1] = sine;
    }
  }
}

void RopeTables::reserve(int max_positions, int max_rot) {
  for (RopeTable& table : tables_) table.reserve(max_positions, max_rot);
}

int RopeTables::prepare(std::span<const int32_t> positions, const Rope& rope, ThreadPool& pool) {
  const auto found = std::ranges::find_if(tables_, [&](const RopeTable& table) { return table.is_of(rope); });
  int number = static_cast<int>(found - tables_.begin());
  if (found == tables_.end()) {
    number = next_;
    next_ = (next_ + 1) % kTables;
  }
  tables_[static_cast<size_t>(number)].prepare(positions, rope, pool);
  return number;
}

}  // namespace hearth
