// Integer sums over neurons on the CPU: every type, ISA and path gives the integers of the definition.
#include <cmath>
#include <cstring>
#include <limits>

#include "kernels/cpu/down_sums.h"
#include "tests/kernels/sums_reference.h"
#include "tests/support/catch.h"

namespace hearth::test {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInf = std::numeric_limits<float>::infinity();

/// Neurons of one token that a list has, and their values by place.
struct Listed {
  std::vector<int32_t> ids;
  std::vector<float> values;
};

Listed some_neurons(const std::vector<float>& all, double share, std::mt19937& rng) {
  std::bernoulli_distribution listed(share);
  Listed some;
  for (size_t j = 0; j < all.size(); ++j) {
    if (!listed(rng)) continue;
    some.ids.push_back(static_cast<int32_t>(j));
    some.values.push_back(all[j]);
  }
  return some;
}

void add(const DownSumsKernels& kernels, const DownColumns& down, const Listed& listed, int64_t begin,
         int64_t end, int64_t* sums) {
  const DownSumsArgs args{.down = &down,
                          .ids = listed.ids.data(),
                          .values = listed.values.data(),
                          .n = static_cast<int>(listed.ids.size()),
                          .column_begin = begin,
                          .column_end = end,
                          .sums = sums + begin};
  if (down.rows) {
    kernels.add_rows[static_cast<size_t>(down.rows.dtype)](args);
  } else {
    kernels.add_coded(args);
  }
}

void check_all_isas(const DownCase& down, const std::vector<float>& values, std::mt19937& rng) {
  const int64_t n_cols = down.down.n_cols;
  for (double share : {0.0, 0.05, 0.5, 1.0}) {
    const Listed listed = some_neurons(values, share, rng);
    Sums expected(1, n_cols);
    reference_sums(down, listed.ids, values, 1, expected);
    for (Isa isa : supported_isas()) {
      INFO(isa_name(isa) << " share " << share);
      const DownSumsKernels& kernels = down_sums_kernels(isa);
      std::vector<int64_t> sums(static_cast<size_t>(n_cols), 0);
      add(kernels, down.down, listed, 0, n_cols, sums.data());
      REQUIRE(sums == expected.sums);
      // Once more, in two shares of columns.
      const int64_t middle = n_cols > kDownStripColumns ? kDownStripColumns : 0;
      add(kernels, down.down, listed, middle, n_cols, sums.data());
      add(kernels, down.down, listed, 0, middle, sums.data());
      for (int64_t& sum : expected.sums) sum *= 2;
      REQUIRE(sums == expected.sums);
      for (int64_t& sum : expected.sums) sum /= 2;
    }
  }
}

}  // namespace

TEST_CASE("sums of rows of every type are the definition's integers on every ISA") {
  std::mt19937 rng(1);
  for (DType type : all_types()) {
    for (size_t gap : {size_t{0}, size_t{7}}) {
      INFO(dtype_info(type).name << ", " << gap << " bytes between rows");
      const DownCase down = down_rows(type, 90, some_columns(type), gap, rng);
      check_all_isas(down, random_activations(90, rng), rng);
      check_all_isas(down, strange_values(90, rng), rng);
    }
  }
}

TEST_CASE("sums of coded columns are the definition's integers on every ISA") {
  std::mt19937 rng(2);
  for (DType type : quantized_types()) {
    INFO(dtype_info(type).name);
    const DownCase down = down_coded(type, 90, 83, 5, rng);
    check_all_isas(down, random_activations(down.down.n_neurons, rng), rng);
    check_all_isas(down, strange_values(down.down.n_neurons, rng), rng);
  }
}

TEST_CASE("contributions of any floats are bounded and rounded as defined") {
  CHECK(contribution(1.0f, 1.0f) == int64_t{1} << 36);
  CHECK(contribution(0x1p-37f, 1.0f) == 0);  // ties to even
  CHECK(contribution(0x3p-37f, 1.0f) == 2);
  CHECK(contribution(-0x3p-37f, 1.0f) == -2);
  CHECK(contribution(0x1.8p-36f, 0x1.000002p0f) == 2);
  CHECK(contribution(1e30f, 1e30f) == int64_t{1} << 56);
  CHECK(contribution(-1e30f, 1e30f) == -(int64_t{1} << 56));
  CHECK(contribution(1.0f, kNan) == int64_t{1} << 56);
  CHECK(contribution(1.0f, -kInf) == -(int64_t{1} << 56));
  std::mt19937 rng(3);
  const int64_t n_cols = 1024;
  DownCase down = down_rows(DType::kF32, 70, n_cols, 0, rng);
  for (float& weight : down.weights) {
    const uint32_t bits = static_cast<uint32_t>(rng());
    std::memcpy(&weight, &bits, sizeof weight);
    if (rng() % 2 == 0) weight = std::ldexp(weight, -static_cast<int>(std::ilogb(weight)) % 60);
  }
  std::memcpy(down.matrix.bytes.data(), down.weights.data(), down.matrix.bytes.size());
  check_all_isas(down, strange_values(70, rng), rng);
}

TEST_CASE("a panel's sums are those of its neurons") {
  std::mt19937 rng(4);
  for (int64_t n_columns : {int64_t{1}, int64_t{32}, int64_t{77}, int64_t{kPanelWidth}}) {
    const int n_tokens = 5;
    const DownCase down = down_rows(DType::kF32, kPanelNeurons, kPanelWidth, 0, rng);
    std::vector<float> values = random_activations(n_tokens * kPanelNeurons, rng), dense = values;
    const std::vector<float> strange = strange_values(kPanelNeurons, rng);
    std::copy(strange.begin(), strange.end(), dense.begin());
    std::vector<uint64_t> wanted(n_tokens);
    std::vector<float> packed;
    std::vector<int32_t> ids;
    for (int32_t j = 0; j < kPanelNeurons; ++j) ids.push_back(j);
    for (size_t t = 0; t < n_tokens; ++t) {
      wanted[t] = t == 2 ? 0 : uint64_t{rng()} << 32 | rng();
      for (size_t j = 0; j < kPanelNeurons; ++j) {
        float& value = dense[t * kPanelNeurons + j];
        if ((wanted[t] >> j & 1) != 0) {
          packed.push_back(value);
        } else {
          value = 0.0f;
        }
      }
    }
    Sums expected(n_tokens, kPanelWidth);
    reference_sums(down, ids, dense, n_tokens, expected);
    for (Isa isa : supported_isas()) {
      INFO(isa_name(isa) << " columns " << n_columns);
      std::vector<int64_t> sums(n_tokens * kPanelWidth, 0);
      down_sums_kernels(isa).add_panel({.weights = down.weights.data(),
                                        .wanted = wanted.data(),
                                        .values = packed.data(),
                                        .n_tokens = n_tokens,
                                        .n_columns = n_columns,
                                        .sums = sums.data(),
                                        .stride = kPanelWidth});
      for (int t = 0; t < n_tokens; ++t) {
        for (int64_t c = 0; c < kPanelWidth; ++c) {
          const size_t i = static_cast<size_t>(t * kPanelWidth + c);
          REQUIRE(sums[i] == (c < n_columns ? expected.sums[i] : 0));
        }
      }
    }
  }
}

}  // namespace hearth::test
