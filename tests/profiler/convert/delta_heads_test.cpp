// DeltaHeads: rows of checkpoints in both orders of files, and one message for heads that do not fit.
#include "profiler/convert/delta_heads.h"

#include <nlohmann/json.hpp>
#include <set>

#include "tests/support/catch.h"

namespace hearth::convert {
namespace {

DeltaHeads heads(int64_t n_k, int64_t n_v, int64_t d_k, int64_t d_v) {
  const nlohmann::json config = {{"linear_num_key_heads", n_k},
                                 {"linear_num_value_heads", n_v},
                                 {"linear_key_head_dim", d_k},
                                 {"linear_value_head_dim", d_v}};
  return DeltaHeads(Config(config, "", "m"));
}

TEST_CASE("value heads of Qwen 3.5's files alternate between the key heads") {
  const DeltaHeads two = heads(2, 6, 4, 8);
  std::vector<int64_t> stored;
  for (int64_t h = 0; h < 6; ++h) stored.push_back(two.stored_head(h));
  CHECK(stored == std::vector<int64_t>{0, 3, 1, 4, 2, 5});
  const int64_t with_keys = 2 * 2 * 4 + 6 * 8;
  CHECK(two.stored_row(15, with_keys) == 15);           // a key's row stays
  CHECK(two.stored_row(16 + 8, with_keys) == 16 + 24);  // value head 1 is the checkpoint's head 3
  CHECK(two.stored_row(8 + 7, 48) == 24 + 7);
  CHECK(two.stored_row(1, 6) == 3);
  CHECK(two.stored_row(0, 7) == std::nullopt);
}

TEST_CASE("rows that are grouped by key heads are read once each, as queries, keys, values and gates") {
  const DeltaHeads two = heads(2, 4, 3, 5);
  const int64_t n_rows = 2 * (2 * 3 + 2 * 2 * 5);
  std::set<int64_t> seen;
  for (int64_t row = 0; row < n_rows; ++row) seen.insert(two.grouped_row(row));
  CHECK(static_cast<int64_t>(seen.size()) == n_rows);
  CHECK(*seen.rbegin() == n_rows - 1);
  const int64_t group = n_rows / 2;
  CHECK(two.grouped_row(3) == group);            // the second head's query
  CHECK(two.grouped_row(6) == 3);                // the first head's key
  CHECK(two.grouped_row(12) == 6);               // value head 0
  CHECK(two.grouped_row(12 + 10) == group + 6);  // value head 2
  CHECK(two.grouped_row(12 + 20) == 6 + 10);     // the gate of value head 0
}

TEST_CASE("heads that do not divide are refused") {
  CHECK_THROWS_WITH(heads(4, 6, 8, 8), ContainsSubstring("divide among the key heads"));
  CHECK_THROWS(heads(0, 6, 8, 8));
  CHECK_THROWS(heads(2, 1 << 20, 8, 8));
}

}  // namespace
}  // namespace hearth::convert
