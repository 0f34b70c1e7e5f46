// Implements DeltaHeads.
#include "profiler/convert/delta_heads.h"

#include <string>

namespace hearth::convert {

DeltaHeads::DeltaHeads(const Config& config)
    : n_k(config.get_int({"linear_num_key_heads"})),
      n_v(config.get_int({"linear_num_value_heads"})),
      d_k(config.get_int({"linear_key_head_dim"})),
      d_v(config.get_int({"linear_value_head_dim"})) {
  constexpr int64_t kMost = 1 << 16;  // far beyond any model
  if (n_k < 1 || n_v < 1 || d_k < 1 || d_v < 1 || n_v > kMost || d_k > kMost || d_v > kMost ||
      n_v % n_k != 0) {
    config.fail(
        "linear_num_key_heads is " + std::to_string(n_k) + " and linear_num_value_heads is " +
        std::to_string(n_v) + ", with " + std::to_string(d_k) + " and " + std::to_string(d_v) +
        " numbers a head; expected value heads that divide among the key heads; the file is damaged.");
  }
}

std::optional<int64_t> DeltaHeads::stored_row(int64_t row, int64_t n_rows) const {
  const bool with_keys = n_rows == key_rows() + value_rows();
  if (!with_keys && n_rows != value_rows() && n_rows != n_v) return std::nullopt;
  const int64_t first = with_keys ? key_rows() : 0, unit = n_rows == n_v ? 1 : d_v;
  if (row < first) return row;
  const int64_t head = (row - first) / unit;
  return first + stored_head(head) * unit + (row - first) % unit;
}

int64_t DeltaHeads::grouped_row(int64_t row) const {
  const int64_t r = n_v / n_k, group = 2 * d_k + 2 * r * d_v;
  const int64_t all_q = n_k * d_k, all_v = value_rows();
  if (row < all_q) return row / d_k * group + row % d_k;
  if (row < 2 * all_q) return (row - all_q) / d_k * group + d_k + row % d_k;
  const int64_t value = row - 2 * all_q, in_half = value % all_v, gate = value / all_v;
  return in_half / (r * d_v) * group + 2 * d_k + gate * r * d_v + in_half % (r * d_v);
}

}  // namespace hearth::convert
