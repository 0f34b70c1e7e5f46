// Integer sums over neurons on the CPU: every type, ISA and path gives the definition's integers.
#include <array>
#include <cmath>
#include <cstring>
#include <limits>

#include "kernels/cpu/isa/down_kernels.h"
#include "kernels/quant/dequantize.h"
#include "kernels/quant/neuron_terms.h"
#include "tests/kernels/neuron_layer.h"
#include "tests/kernels/sums_reference.h"
#include "tests/support/catch.h"

namespace hearth::test {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInf = std::numeric_limits<float>::infinity();

/// One token's listed neurons, and their values by list index.
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
  std::vector<float> parts(static_cast<size_t>(3 * (end - begin)), kNan);
  const DownSumsArgs args{.down = &down,
                          .ids = listed.ids.data(),
                          .values = listed.values.data(),
                          .n = static_cast<int>(listed.ids.size()),
                          .column_begin = begin,
                          .column_end = end,
                          .sums = sums + begin,
                          .parts = parts.data()};
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
      // Repeat with two shares of the columns.
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
  CHECK(contribution(0x1.8p-36f, 0x1.000002p0f) == 2);                            // just above a tie
  CHECK(contribution(0x1.000002p-18f, 0x1.fffffep-19f) == 1);                     // 1 + 2^-24 - 2^-47 units
  CHECK(contribution(0x1.000002p-9f, 0x1.000002p-5f) == (int64_t{1} << 22) + 1);  // 2^22 + 1 + 2^-24 units
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
    if (rng() % 2 == 0 && std::isnormal(weight))
      weight = std::ldexp(weight, -static_cast<int>(std::ilogb(weight)) % 60);
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

TEST_CASE("a panel of codes has the sums of its neurons, of every type with terms") {
  std::mt19937 rng(6);
  for (int i = 0; i < kDTypeCount; ++i) {
    const auto type = static_cast<DType>(i);
    if (!has_terms(type)) continue;
    constexpr int64_t kColumns = 2 * kPanelWidth;
    const int n_tokens = 4;
    const DownCase down = down_rows(type, kPanelNeurons, kColumns, 0, rng);
    std::vector<float> dense = strange_values(n_tokens * kPanelNeurons, rng), packed;
    std::vector<uint64_t> wanted(n_tokens);
    std::vector<int32_t> ids;
    for (int32_t j = 0; j < kPanelNeurons; ++j) ids.push_back(j);
    for (size_t t = 0; t < n_tokens; ++t) {
      wanted[t] = t == 2 ? 0 : uint64_t{rng()} << 32 | rng();
      for (size_t j = 0; j < kPanelNeurons; ++j) {
        float& value = dense[t * kPanelNeurons + j];
        if ((wanted[t] >> j & 1) == 0) value = 0.0f;
        if ((wanted[t] >> j & 1) != 0) packed.push_back(value);
      }
    }
    Sums expected(n_tokens, kColumns);
    reference_sums(down, ids, dense, n_tokens, expected);
    for (Isa isa : supported_isas()) {
      INFO(isa_name(isa) << " " << dtype_info(type).name);
      const DownSumsKernels& kernels = down_sums_kernels(isa);
      std::vector<TermPanel> panels(2);
      std::memset(static_cast<void*>(panels.data()), 0xff,
                  panels.size() * sizeof(TermPanel));  // NaNs in rows that no token wants
      uint64_t any = 0;
      for (uint64_t bits : wanted) any |= bits;
      for (int j = 0; j < kPanelNeurons; ++j) {
        if ((any >> j & 1) != 0)
          kernels.fill_terms[static_cast<size_t>(i)](down.down.rows, j, 0, kColumns, j, panels.data());
      }
      std::vector<int64_t> sums(n_tokens * kColumns, 0);
      for (int half = 0; half < 2; ++half) {
        kernels.add_term_panel[static_cast<size_t>(i)]({.panel = &panels[static_cast<size_t>(half)],
                                                        .wanted = wanted.data(),
                                                        .values = packed.data(),
                                                        .n_tokens = n_tokens,
                                                        .n_columns = kPanelWidth,
                                                        .sums = sums.data() + half * kPanelWidth,
                                                        .stride = kColumns});
      }
      REQUIRE(sums == expected.sums);
    }
  }
}

TEST_CASE("sums of terms at their bounds do not overflow for the largest model") {
  // Codes and factors for which terms are just below their limit, in 60,000 neurons with the same sign.
  for (const DType type : {DType::kQ8_0, DType::kQ4_0, DType::kIQ4_NL}) {
    std::mt19937 rng(7);
    DownCase down = down_rows(type, 1, 32, 0, rng);
    const uint16_t half = 0x3c00;  // 1
    std::memcpy(down.matrix.bytes.data(), &half, 2);
    std::memset(down.matrix.bytes.data() + 2, type == DType::kQ8_0 ? 0x80 : 0, down.matrix.bytes.size() - 2);
    std::vector<float> weights(32);
    dequantize_row(type, down.down.rows.row(0), 32, weights.data());
    down.weights = weights;
    const int exponent = type == DType::kQ4_0 ? 31 : 35;
    const float value = std::nextafter(std::ldexp(1.0f, 30 - exponent), 0.0f);
    constexpr int kNeurons = 60000;
    const std::vector<int32_t> ids(kNeurons, 0);
    const std::vector<float> values(kNeurons, value);
    for (Isa isa : supported_isas()) {
      std::vector<int64_t> sums(32, 0);
      std::vector<float> parts(96);
      down_sums_kernels(isa).add_rows[static_cast<size_t>(type)]({.down = &down.down,
                                                                  .ids = ids.data(),
                                                                  .values = values.data(),
                                                                  .n = kNeurons,
                                                                  .column_begin = 0,
                                                                  .column_end = 32,
                                                                  .sums = sums.data(),
                                                                  .parts = parts.data()});
      const long double expected = static_cast<long double>(value) * weights[0] * kNeurons * 0x1p36L;
      INFO(isa_name(isa) << " " << dtype_info(type).name);
      CHECK(static_cast<long double>(sums[0]) == expected);
      CHECK(sums[31] == sums[0]);
    }
  }
}

TEST_CASE("sums by terms err no more than sums of floats") {
  std::mt19937 rng(8);
  for (const DType type : {DType::kQ4_0, DType::kQ8_0, DType::kQ4_K, DType::kQ6_K}) {
    const int64_t n = 2000, n_cols = 512;
    const DownCase down = down_rows(type, n, n_cols, 0, rng);
    const std::vector<float> values = random_activations(n, rng);
    std::vector<int32_t> ids;
    for (int32_t j = 0; j < n; ++j) ids.push_back(j);
    Sums sums(1, n_cols);
    reference_sums(down, ids, values, 1, sums);
    double error = 0, float_error = 0, size = 0;
    for (int64_t c = 0; c < n_cols; ++c) {
      double exact = 0;
      float plain = 0;
      for (int64_t j = 0; j < n; ++j) {
        const float weight = down.weights[static_cast<size_t>(j * n_cols + c)];
        exact += double{values[static_cast<size_t>(j)]} * weight;
        plain = std::fma(values[static_cast<size_t>(j)], weight, plain);
      }
      error += std::pow(static_cast<double>(sums.sums[static_cast<size_t>(c)]) * 0x1p-36 - exact, 2);
      float_error += std::pow(plain - exact, 2);
      size += exact * exact;
    }
    INFO(dtype_info(type).name << ": " << std::sqrt(error / size) << " against "
                               << std::sqrt(float_error / size));
    CHECK(error <= 4 * float_error);
  }
}

namespace {

/// A layer and its weights. The down projection is rows or, if `coded`, codes.
struct SumsLayer {
  Layer layer;
  DownCase down;
};

SumsLayer sums_layer(const LayerShape& shape, bool coded, std::mt19937& rng) {
  SumsLayer made{random_layer(shape, rng), {}};
  if (coded) {
    made.down = down_coded(shape.down_type, shape.d_ff, shape.d_model, 0, rng);
    const float* bias = made.layer.ffn.down.bias;
    made.layer.ffn.down = made.down.down;
    made.layer.ffn.down.bias = bias;
    return made;
  }
  const DownColumns& down = made.layer.ffn.down;
  made.down.down = down;
  made.down.weights.resize(static_cast<size_t>(shape.d_ff * shape.d_model));
  for (int64_t j = 0; j < shape.d_ff; ++j) {
    dequantize_row(shape.down_type, down.rows.row(j), shape.d_model,
                   made.down.weights.data() + j * shape.d_model);
  }
  return made;
}

/// The sums of all tokens of a set.
void reference_sums_of_set(const SumsLayer& made, std::vector<float> values, const NeuronSet& set, Sums& to) {
  const int64_t n = set.n_neurons();
  for (int t = 0; t < set.n_tokens(); ++t) {
    for (int64_t j = 0; j < n; ++j) {
      if (!set.wants(t, j)) values[static_cast<size_t>(t * n + j)] = 0.0f;
    }
  }
  reference_sums(made.down, {set.ids().begin(), set.ids().end()}, values, set.n_tokens(), to);
}

/// The neurons of a set that are on one side, or on the other.
NeuronSet share_of(const NeuronSet& set, const std::vector<bool>& side, bool which) {
  NeuronSet share;
  share.reserve(set.n_tokens(), set.n_neurons());
  share.clear(set.n_tokens(), set.n_neurons());
  for (int t = 0; t < set.n_tokens(); ++t) {
    for (int64_t j = 0; j < set.n_neurons(); ++j) {
      if (set.wants(t, j) && side[static_cast<size_t>(j)] == which) {
        share.wanted(t)[j / 64] |= uint64_t{1} << (j % 64);
      }
    }
  }
  share.collect();
  return share;
}

/// Splits the set's neurons in two, as for two devices.
std::array<NeuronSet, 2> random_shares(const NeuronSet& set, std::mt19937& rng) {
  std::vector<bool> side(static_cast<size_t>(set.n_neurons()));
  for (size_t j = 0; j < side.size(); ++j) side[j] = rng() % 3 == 0;
  return {share_of(set, side, false), share_of(set, side, true)};
}

void choose_way(CpuBackend& backend, int way) {
  backend.choose_neuron_paths(way == 0 ? SparseFfn::kMaxFewTokens : 0,
                              way == 1 ? CpuBackend::RowChoice::kListed : CpuBackend::RowChoice::kAll);
}

}  // namespace

TEST_CASE("a layer's neurons add the definition's integers, for any split, threads and method") {
  std::mt19937 rng(5);
  for (int variant = 0; variant < 6; ++variant) {
    const bool coded = variant % 2 == 1;
    const LayerShape shape{.d_model = variant == 5 ? 160 : 288,
                           .d_ff = coded ? 512 : 333,
                           .down_type = variant == 2   ? DType::kF16
                                        : variant == 3 ? DType::kQ4_K
                                                       : DType::kQ4_0,
                           .gated = variant != 4,
                           .biases = variant >= 3,
                           .bundled = variant == 2};
    const SumsLayer made = sums_layer(shape, coded, rng);
    const FfnNeurons& ffn = made.layer.ffn;
    for (int n_tokens : {1, 3, 16, 70}) {
      const std::vector<float> x = random_activations(n_tokens * shape.d_model, rng);
      const NeuronSet set = random_set(n_tokens, shape.d_ff, 0.4, rng);
      const std::array<NeuronSet, 2> shares = random_shares(set, rng);
      for (int n_threads : {1, 3}) {
        CpuBackend backend(n_threads, supported_isas().front());
        backend.reserve({n_tokens, 512, 1, 16});
        Sums expected(n_tokens, shape.d_model);
        const std::vector<float> values = dense_values(backend, ffn, x, n_tokens);
        reference_sums_of_set(made, values, set, expected);
        std::vector<float> gates(static_cast<size_t>(n_tokens * shape.d_ff));
        const Product gate{ffn.gate, ffn.gate_bias, gates.data(), shape.d_ff, false};
        backend.matmul(x.data(), n_tokens, {&gate, 1});
        for (int way : {0, 1, 2}) {
          choose_way(backend, way);
          INFO("variant " << variant << ", " << n_tokens << " tokens, " << n_threads << " threads, way "
                          << way);
          NeuronCounts counts, of_floats;
          Sums whole(n_tokens, shape.d_model), shared = whole, of_values = whole;
          backend.ffn_neuron_sums(ffn, x.data(), n_tokens, set, nullptr, whole.view(), counts);
          REQUIRE(whole == expected);
          std::vector<float> out(whole.sums.size());
          backend.ffn_neurons(ffn, x.data(), n_tokens, set, nullptr, out.data(), of_floats);
          CHECK(counts.active == of_floats.active);
          CHECK(counts.down_rows == of_floats.down_rows);
          for (const NeuronSet& share : shares) {
            backend.ffn_neuron_sums(ffn, x.data(), n_tokens, share, gates.data(), shared.view(), counts);
          }
          REQUIRE(shared == expected);
          backend.down_neuron_sums(ffn.down, values.data(), n_tokens, set, of_values.view(), counts);
          REQUIRE(of_values == expected);
        }
      }
    }
  }
}

TEST_CASE("small contributions are left out of the sums, for any split, threads and method") {
  std::mt19937 rng(7);
  for (int variant = 0; variant < 3; ++variant) {
    const bool coded = variant == 1;
    const LayerShape shape{.d_model = 160,
                           .d_ff = coded ? 512 : 333,
                           .down_type = variant == 2 ? DType::kF16 : DType::kQ4_0,
                           .gated = variant != 2,
                           .biases = true,
                           .bundled = variant == 0};
    SumsLayer made = sums_layer(shape, coded, rng);
    FfnNeurons& ffn = made.layer.ffn;
    ffn.activation = {Activation::kSilu};
    std::vector<float> sizes = random_activations(shape.d_ff, rng);
    for (float& size : sizes) size = std::fabs(size);
    ffn.down_sizes = sizes.data();
    for (int n_tokens : {1, 3, 16, 70}) {
      const std::vector<float> x = random_activations(n_tokens * shape.d_model, rng);
      const NeuronSet set = random_set(n_tokens, shape.d_ff, 0.7, rng);
      const std::array<NeuronSet, 2> shares = random_shares(set, rng);
      for (int n_threads : {1, 3}) {
        CpuBackend backend(n_threads, supported_isas().front());
        backend.reserve({n_tokens, 512, 1, 16});
        const std::vector<float> values = dense_values(backend, ffn, x, n_tokens);
        std::vector<float> scores;
        for (size_t i = 0; i < values.size(); ++i)
          scores.push_back(std::fabs(values[i]) * sizes[i % sizes.size()]);
        std::ranges::nth_element(scores, scores.begin() + static_cast<ptrdiff_t>(scores.size() / 2));
        for (const float least : {0.0f, scores[scores.size() / 2], kInf}) {
          NeuronSet kept;
          kept.reserve(n_tokens, shape.d_ff);
          kept.clear(n_tokens, shape.d_ff);
          for (int t = 0; t < n_tokens; ++t) {
            for (int64_t j = 0; j < shape.d_ff; ++j) {
              const auto at = static_cast<size_t>(t * shape.d_ff + j);
              const bool counts =
                  set.wants(t, j) && std::fabs(values[at]) * sizes[static_cast<size_t>(j)] >= least;
              if (counts) kept.wanted(t)[j / 64] |= uint64_t{1} << (j % 64);
            }
          }
          kept.collect();
          Sums expected(n_tokens, shape.d_model);
          reference_sums_of_set(made, values, kept, expected);
          for (int way : {0, 1, 2}) {
            choose_way(backend, way);
            INFO("variant " << variant << ", " << n_tokens << " tokens, " << n_threads << " threads, way "
                            << way << ", at least " << least);
            NeuronCounts whole_counts, counts;
            Sums whole(n_tokens, shape.d_model), shared = whole;
            backend.contribution_sums(ffn, x.data(), n_tokens, set, least, whole.view(), whole_counts);
            REQUIRE(whole == expected);
            for (const NeuronSet& share : shares) {
              backend.contribution_sums(ffn, x.data(), n_tokens, share, least, shared.view(), counts);
            }
            REQUIRE(shared == expected);
            for (const NeuronCounts& c : {whole_counts, counts}) {
              CHECK(c.proposed == kept.count());
              CHECK(c.gate_rows + c.up_rows + c.passed == 0);
            }
            CHECK(counts.active == whole_counts.active);
            CHECK(counts.down_rows == whole_counts.down_rows);
          }
        }
      }
    }
  }
}

TEST_CASE("sums as floats equal the float path's but for rounding") {
  // A sum of n floats with total magnitude M is off by at most (n + 18) * 2^-24 * M (neurons_test.cpp), and
  // one of integers by n * (2^-37 + 2^-24 of a product), which is 2^-24 * M + n * 2^-37; the final rounding
  // adds 2^-24 of the sum.
  std::mt19937 rng(6);
  const LayerShape shape{.d_model = 256, .d_ff = 700, .down_type = DType::kQ5_K};
  const SumsLayer made = sums_layer(shape, false, rng);
  const std::vector<float> values = random_activations(shape.d_ff, rng);
  const NeuronSet set = random_set(1, shape.d_ff, 0.5, rng);
  CpuBackend backend(1, supported_isas().front());
  backend.reserve({1, 700, 1, 16});
  Sums sums(1, shape.d_model);
  std::vector<float> out(static_cast<size_t>(shape.d_model), 0.0f);
  NeuronCounts counts;
  backend.down_neuron_sums(made.layer.ffn.down, values.data(), 1, set, sums.view(), counts);
  backend.down_neurons(made.layer.ffn.down, values.data(), 1, set, out.data(), counts);
  const double n = static_cast<double>(set.ids().size());
  for (size_t c = 0; c < out.size(); ++c) {
    double magnitude = 0.0;
    for (int32_t id : set.ids()) {
      magnitude += std::fabs(double{values[static_cast<size_t>(id)]} *
                             made.down.weights[static_cast<size_t>(id) * out.size() + c]);
    }
    const double sum = static_cast<double>(sums.sums[c]) * 0x1p-36;
    REQUIRE(std::fabs(sum - double{out[c]}) <= (n + 20) * 0x1p-24 * magnitude + n * 0x1p-37);
  }
}

TEST_CASE("a NaN value poisons only its token's sum, and only if wanted") {
  std::mt19937 rng(7);
  const LayerShape shape{.d_model = 64, .d_ff = 200};
  const SumsLayer made = sums_layer(shape, false, rng);
  const int n_tokens = 4;
  std::vector<float> values = random_activations(n_tokens * shape.d_ff, rng);
  NeuronSet set = random_set(n_tokens, shape.d_ff, 0.5, rng);
  for (int t = 0; t < n_tokens; ++t) set.wanted(t)[0] |= uint64_t{t != 0};
  set.wanted(0)[0] &= ~uint64_t{1};
  set.collect();
  values[0] = kNan;  // not wanted
  values[1 * 200] = kNan;
  values[2 * 200] = -kInf;
  Sums expected(n_tokens, shape.d_model);
  reference_sums_of_set(made, values, set, expected);
  for (int n_threads : {1, 3}) {
    CpuBackend backend(n_threads, supported_isas().front());
    backend.reserve({n_tokens, 200, 1, 16});
    for (int way : {0, 1}) {
      INFO(n_threads << " threads, way " << way);
      choose_way(backend, way);
      Sums found(n_tokens, shape.d_model);
      NeuronCounts counts;
      backend.down_neuron_sums(made.layer.ffn.down, values.data(), n_tokens, set, found.view(), counts);
      CHECK(found.poison == std::vector<int32_t>{0, 1, 1, 0});
      for (size_t c = 0; c < 64; ++c) {
        REQUIRE(found.sums[c] == expected.sums[c]);
        REQUIRE(found.sums[3 * 64 + c] == expected.sums[3 * 64 + c]);
      }
    }
  }
}

}  // namespace hearth::test
