// The program with this file runs AMX's loops over a stand-in for its tiles, which reports operations that
// would fault on a processor. Its other files compare all ISAs. This file checks that tiles are used and
// released, and that the stand-in finds faults.
#include <algorithm>
#include <random>
#include <stdexcept>
#include <utility>
#include <vector>

#include "kernels/cpu/isa/isa.h"
#include "tests/kernels/matmul_run.h"
#include "tests/kernels/weight_rows.h"
#include "tests/support/amx_standin/tiles.h"
#include "tests/support/catch.h"
#include "tests/support/skip.h"

namespace hearth {
namespace {

bool runs_amx() {
  const std::vector<Isa> here = supported_isas();
  return std::find(here.begin(), here.end(), Isa::kAmx) != here.end();
}

}  // namespace

TEST_CASE("AMX's loops run over a stand-in for tiles", "[isa]") {
  const std::vector<Isa> here = supported_isas();
  if (std::find(here.begin(), here.end(), Isa::kAvx512Vnni) == here.end()) {
    return testing::skip("this processor lacks avx512-vnni");
  }
  CHECK(runs_amx());
}

TEST_CASE("prompts are multiplied with tiles, a few tokens are not", "[isa]") {
  if (!runs_amx()) return testing::skip("this processor lacks avx512-vnni");
  constexpr int64_t kRows = 37, kCols = 512;
  std::mt19937 rng(1);
  const test::OwnedMatrix weight = test::random_matrix(DType::kQ4_K, kRows, kCols, rng);
  for (const ActivationBits bits : {ActivationBits::k15, ActivationBits::k8}) {
    // Numbers of tokens, and how many tiles multiply them: passes have 128 tokens, and the last pass uses
    // tiles only if it has 16.
    const std::vector<std::pair<int, int>> cases = {{1, 0},  {15, 0},  {16, 1},  {17, 2},  {31, 2},
                                                    {32, 2}, {128, 8}, {143, 8}, {145, 10}};
    for (const auto& [n_tokens, n_tiles] : cases) {
      const std::vector<float> x = test::random_activations(n_tokens * kCols, rng);
      const int64_t before = testing::tile_products();
      const std::vector<float> out = test::multiply(Isa::kAmx, weight.view, x, n_tokens, bits);
      const int64_t pairs = 2, spans = kCols / 32, planes = bits == ActivationBits::k15 ? 2 : 1;
      INFO(n_tokens << " tokens");
      CHECK(testing::tile_products() - before == n_tiles * pairs * spans * planes * 2);
      CHECK_FALSE(testing::tiles_are_configured());
      CHECK(out == test::multiply(Isa::kAvx512Vnni, weight.view, x, n_tokens, bits));
    }
  }
}

TEST_CASE("the stand-in for tiles detects what a processor would fault on", "[isa]") {
  TileConfig config = kTileConfig<32>;
  CHECK_THROWS_AS(testing::zero_tile(0), std::logic_error);  // no shapes yet
  const auto refused = [](const TileConfig& wrong) {
    CHECK_THROWS_AS(testing::configure_tiles(wrong), std::logic_error);
  };
  config.palette = 2;
  refused(config);
  config = kTileConfig<32>;
  config.rows[3] = 17;
  refused(config);
  config = kTileConfig<32>;
  config.row_bytes[3] = 65;
  refused(config);
  config = kTileConfig<32>;
  config.rows[8] = config.row_bytes[8] = 16;
  refused(config);
  testing::configure_tiles(kTileConfig<32>);
  CHECK_THROWS_AS(testing::zero_tile(8), std::logic_error);
  CHECK_THROWS_AS(testing::multiply_tiles(4, 2, 0), std::logic_error);  // the factors' shapes do not fit
  CHECK_THROWS_AS(testing::multiply_tiles(4, 4, 2), std::logic_error);
  CHECK_NOTHROW(testing::multiply_tiles(4, 0, 2));
  testing::release_tiles();
  CHECK_THROWS_AS(testing::multiply_tiles(4, 0, 2), std::logic_error);
}

}  // namespace hearth
