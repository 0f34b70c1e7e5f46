// The CPU's sparse FFN: every path, type, ISA, thread count and batch gives the bits of the definition, and
// these are the right numbers.
//
// Tolerance of the sums: a sum is a chain of n fused multiply-adds, each of which rounds once by 2^-24 of a
// partial sum that is at most the sum M of absolute products; 16 ranges and a bias are added. So |error| <=
// (n + 18) * 2^-24 * M, where n is the number of active neurons.
#include <cmath>
#include <limits>

#include "kernels/quant/dequantize.h"
#include "tests/kernels/neuron_layer.h"
#include "tests/support/catch.h"
#include "tests/support/same_bits.h"

namespace hearth::test {
namespace {

/// A backend in which all steps use one algorithm.
struct Way {
  const char* name;
  int few_tokens;
  CpuBackend::RowChoice rows;
};
constexpr Way kWays[] = {{"range by range", 8, CpuBackend::RowChoice::kMeasured},
                         {"many tokens, listed rows", 0, CpuBackend::RowChoice::kListed},
                         {"many tokens, all rows", 0, CpuBackend::RowChoice::kAll},
                         {"many tokens, rows as measured", 0, CpuBackend::RowChoice::kMeasured}};

struct Run {
  std::vector<float> out;
  NeuronCounts counts;
  std::vector<uint64_t> active;  // [n_tokens, words]
  std::vector<float> values;     // [n_tokens, d_ff]; NaN where nothing was written
};

/// Makes one ffn_neurons call on a residual stream of ones.
Run run_ffn(CpuBackend& backend, const FfnNeurons& ffn, const std::vector<float>& x, int n_tokens,
            const NeuronSet& set, const float* gates) {
  Run run;
  run.out.assign(static_cast<size_t>(n_tokens * ffn.down.n_cols), 1.0f);
  run.active.assign(static_cast<size_t>(n_tokens) * set.words(), ~uint64_t{0});
  run.values.assign(static_cast<size_t>(n_tokens * ffn.down.n_neurons), NAN);
  const ActiveNeurons found{run.active.data(), run.values.data()};
  run.counts.found = &found;
  backend.ffn_neurons(ffn, x.data(), n_tokens, set, gates, run.out.data(), run.counts);
  run.counts.found = nullptr;
  return run;
}

std::vector<float> expected_out(CpuBackend& backend, const FfnNeurons& ffn, const std::vector<float>& x,
                                int n_tokens, const NeuronSet& set) {
  const std::vector<float> values = dense_values(backend, ffn, x, n_tokens);
  std::vector<float> out(static_cast<size_t>(n_tokens * ffn.down.n_cols), 1.0f);
  reference_down(ffn.down, values.data(), n_tokens, set, out.data());
  return out;
}

}  // namespace

TEST_CASE("sparse FFNs of every type have the definition's bits on every ISA and by every method") {
  std::mt19937 rng(1);
  for (DType type : all_types()) {
    LayerShape shape{.d_model = 288, .d_ff = 200, .type = DType::kQ8_0, .down_type = type};
    if (dtype_info(type).block_elems > 32) shape.d_model = 512;
    if (dtype_info(type).block_elems == 1) {
      shape.d_model = 163;
      shape.type = DType::kF32;
    }
    const Layer layer = random_layer(shape, rng);
    const int n_tokens = 3;
    const std::vector<float> x = random_activations(n_tokens * shape.d_model, rng);
    const NeuronSet set = random_set(n_tokens, shape.d_ff, 0.4, rng);
    for (Isa isa : supported_isas()) {
      CpuBackend backend(1, isa);
      backend.reserve({n_tokens, 512, 1, 16});
      const std::vector<float> expected = expected_out(backend, layer.ffn, x, n_tokens, set);
      for (const Way& way : kWays) {
        INFO(dtype_info(type).name << " " << isa_name(isa) << ", " << way.name);
        backend.choose_neuron_paths(way.few_tokens, way.rows);
        REQUIRE(same_bits(run_ffn(backend, layer.ffn, x, n_tokens, set, nullptr).out, expected));
      }
    }
  }
}

TEST_CASE("sizes, shares, biases, bundles and precomputed gates change no bit") {
  std::mt19937 rng(2);
  CpuBackend backend(2, supported_isas().front());
  backend.reserve({70, 1200, 1, 16});
  for (int64_t d_ff : {1, 63, 64, 65, 256, 1100}) {
    for (double share : {0.0, 0.002, 0.2, 1.0}) {
      for (int variant = 0; variant < 4; ++variant) {
        const LayerShape shape{.d_model = 96,
                               .d_ff = d_ff,
                               .gated = variant != 1,
                               .biases = variant % 2 == 1,
                               .bundled = variant >= 2};
        const Layer layer = random_layer(shape, rng);
        for (int n_tokens : {1, 2, 8, 40}) {
          const std::vector<float> x = random_activations(n_tokens * shape.d_model, rng);
          const NeuronSet set = random_set(n_tokens, d_ff, share, rng);
          const std::vector<float> expected = expected_out(backend, layer.ffn, x, n_tokens, set);
          std::vector<float> gates(static_cast<size_t>(n_tokens * d_ff));
          const Product gate{layer.ffn.gate, layer.ffn.gate_bias, gates.data(), d_ff, false};
          backend.matmul(x.data(), n_tokens, {&gate, 1});
          for (const Way& way : kWays) {
            INFO("d_ff " << d_ff << " share " << share << " variant " << variant << " tokens " << n_tokens
                         << ", " << way.name);
            backend.choose_neuron_paths(way.few_tokens, way.rows);
            REQUIRE(same_bits(run_ffn(backend, layer.ffn, x, n_tokens, set, nullptr).out, expected));
            REQUIRE(same_bits(run_ffn(backend, layer.ffn, x, n_tokens, set, gates.data()).out, expected));
          }
        }
      }
    }
  }
}

TEST_CASE("a token's sums do not depend on threads or other tokens") {
  std::mt19937 rng(3);
  const LayerShape shape{.d_model = 320, .d_ff = 1500, .down_type = DType::kQ8_0};
  const Layer layer = random_layer(shape, rng);
  const int n_tokens = 40;
  const std::vector<float> x = random_activations(n_tokens * shape.d_model, rng);
  const NeuronSet set = random_set(n_tokens, shape.d_ff, 0.2, rng);
  CpuBackend first(1, supported_isas().front());
  first.reserve({n_tokens, 1500, 1, 16});
  const std::vector<float> expected = expected_out(first, layer.ffn, x, n_tokens, set);
  for (int n_threads : {1, 2, 3, 5}) {
    CpuBackend backend(n_threads, supported_isas().front());
    backend.reserve({n_tokens, 1500, 1, 16});
    REQUIRE(same_bits(run_ffn(backend, layer.ffn, x, n_tokens, set, nullptr).out, expected));
    for (int t : {0, 17, 39}) {
      NeuronSet alone;
      alone.reserve(1, shape.d_ff);
      alone.clear(1, shape.d_ff);
      std::copy_n(set.wanted(t), set.words(), alone.wanted(0));
      alone.collect();
      const std::vector<float> own(x.begin() + t * shape.d_model, x.begin() + (t + 1) * shape.d_model);
      const std::vector<float> out(expected.begin() + t * shape.d_model,
                                   expected.begin() + (t + 1) * shape.d_model);
      INFO(n_threads << " threads, token " << t);
      REQUIRE(same_bits(run_ffn(backend, layer.ffn, own, 1, alone, nullptr).out, out));
    }
  }
}

TEST_CASE("sums are those of a double reference") {
  std::mt19937 rng(4);
  for (DType type : all_types()) {
    const LayerShape shape{.d_model = 256, .d_ff = 700, .down_type = type};
    const Layer layer = random_layer(shape, rng);
    const int n_tokens = 2;
    const std::vector<float> values = random_activations(n_tokens * shape.d_ff, rng);
    const NeuronSet set = random_set(n_tokens, shape.d_ff, 0.3, rng);
    std::vector<double> exact(static_cast<size_t>(n_tokens * shape.d_model), 0.0), magnitude = exact;
    std::vector<float> w(static_cast<size_t>(shape.d_model));
    int n_active = 0;
    for (int64_t j = 0; j < shape.d_ff; ++j) {
      dequantize_row(type, layer.ffn.down.rows.row(j), shape.d_model, w.data());
      for (int t = 0; t < n_tokens; ++t) {
        if (!set.wants(t, j)) continue;
        ++n_active;
        for (int64_t c = 0; c < shape.d_model; ++c) {
          const double product =
              double{values[static_cast<size_t>(t * shape.d_ff + j)]} * w[static_cast<size_t>(c)];
          exact[static_cast<size_t>(t * shape.d_model + c)] += product;
          magnitude[static_cast<size_t>(t * shape.d_model + c)] += std::fabs(product);
        }
      }
    }
    for (Isa isa : supported_isas()) {
      CpuBackend backend(1, isa);
      backend.reserve({n_tokens, 700, 1, 16});
      std::vector<float> out(exact.size(), 0.0f);
      NeuronCounts counts;
      backend.down_neurons(layer.ffn.down, values.data(), n_tokens, set, out.data(), counts);
      for (size_t i = 0; i < out.size(); ++i) {
        INFO(dtype_info(type).name << " " << isa_name(isa) << " element " << i);
        REQUIRE(std::fabs(double{out[i]} - exact[i]) <= (n_active + 18) * 0x1p-24 * magnitude[i]);
      }
    }
  }
}

TEST_CASE("counts report wanted neurons, passed gates and rows read") {
  std::mt19937 rng(5);
  const LayerShape shape{.d_model = 64, .d_ff = 300};
  const Layer layer = random_layer(shape, rng);
  const int n_tokens = 5;
  const std::vector<float> x = random_activations(n_tokens * shape.d_model, rng);
  const NeuronSet set = random_set(n_tokens, shape.d_ff, 0.3, rng);
  CpuBackend backend(3, supported_isas().front());
  backend.reserve({n_tokens, 300, 1, 16});
  const std::vector<float> values = dense_values(backend, layer.ffn, x, n_tokens);
  FfnNeurons gates_only = layer.ffn;
  gates_only.up = {};
  const std::vector<float> gates = dense_values(backend, gates_only, x, n_tokens);
  int64_t proposed = 0, passed = 0, active = 0, up_rows = 0, rows = 0;
  std::vector<uint64_t> found(static_cast<size_t>(n_tokens) * set.words(), 0);
  for (int64_t j = 0; j < shape.d_ff; ++j) {
    bool any = false, any_passed = false;
    for (int t = 0; t < n_tokens; ++t) {
      if (!set.wants(t, j)) continue;
      ++proposed;
      if (gates[static_cast<size_t>(t * shape.d_ff + j)] == 0.0f) continue;
      any_passed = true;
      ++passed;
      if (values[static_cast<size_t>(t * shape.d_ff + j)] == 0.0f) continue;
      any = true;
      ++active;
      found[static_cast<size_t>(t) * set.words() + static_cast<size_t>(j / 64)] |= uint64_t{1} << (j % 64);
    }
    rows += any ? 1 : 0;
    up_rows += any_passed ? 1 : 0;
  }
  for (const Way& way : kWays) {
    INFO(way.name);
    backend.choose_neuron_paths(way.few_tokens, way.rows);
    const Run run = run_ffn(backend, layer.ffn, x, n_tokens, set, nullptr);
    CHECK(run.counts.proposed == proposed);
    CHECK(run.counts.passed == passed);
    CHECK(run.counts.active == active);
    CHECK(run.counts.down_rows == rows);
    CHECK(run.active == found);
    for (size_t i = 0; i < run.values.size(); ++i) {
      const size_t t = i / static_cast<size_t>(shape.d_ff), j = i % static_cast<size_t>(shape.d_ff);
      if ((found[t * set.words() + j / 64] >> (j % 64) & 1) != 0) {
        REQUIRE(run.values[i] == values[i]);
      } else {
        REQUIRE(std::isnan(run.values[i]));
      }
    }
    // depends on a measurement
    if (way.few_tokens == 0 && way.rows == CpuBackend::RowChoice::kMeasured) continue;
    const bool all = way.rows == CpuBackend::RowChoice::kAll;
    CHECK(run.counts.gate_rows == (all ? shape.d_ff : static_cast<int64_t>(set.ids().size())));
    CHECK(run.counts.up_rows == (all ? shape.d_ff : up_rows));
  }
}

TEST_CASE("unwanted neurons are not read, and a NaN of a wanted one shows") {
  std::mt19937 rng(6);
  const LayerShape shape{.d_model = 64, .d_ff = 200, .type = DType::kF32, .down_type = DType::kF32};
  Layer layer = random_layer(shape, rng);
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const int n_tokens = 3;
  std::vector<float> values = random_activations(n_tokens * shape.d_ff, rng);
  const NeuronSet set = random_set(n_tokens, shape.d_ff, 0.5, rng);
  CpuBackend backend(2, supported_isas().front());
  backend.reserve({n_tokens, 200, 1, 16});
  for (int64_t j = 0; j < shape.d_ff; ++j) {
    for (int t = 0; t < n_tokens; ++t) {
      if (!set.wants(t, j)) values[static_cast<size_t>(t * shape.d_ff + j)] = nan;
    }
  }
  for (bool broken : {false, true}) {
    if (broken) values[static_cast<size_t>(set.ids().front())] = nan;  // token 0 or another one
    for (const Way& way : kWays) {
      backend.choose_neuron_paths(way.few_tokens, way.rows);
      std::vector<float> out(static_cast<size_t>(n_tokens * shape.d_model), 0.0f);
      NeuronCounts counts;
      backend.down_neurons(layer.ffn.down, values.data(), n_tokens, set, out.data(), counts);
      for (int t = 0; t < n_tokens; ++t) {
        INFO(way.name << ", token " << t << (broken ? ", broken" : ""));
        const bool expected = broken && t == 0 && set.wants(0, set.ids().front());
        CHECK(std::isnan(out[static_cast<size_t>(t * shape.d_model)]) == expected);
      }
    }
  }
}

TEST_CASE("sets belong to a backend, and one more than it has reserved is an error") {
  CpuBackend backend(1, supported_isas().front());
  CHECK_THROWS_AS(backend.make_set(), std::logic_error);
  backend.reserve({.max_tokens = 1, .max_cols = 64, .n_sets = 2});
  const NeuronSetId even = backend.make_set(), none = backend.make_set();
  CHECK_THROWS_WITH(backend.make_set(), ContainsSubstring("for 2 sets of neurons was reserved"));
  std::vector<float> values(64, 0.0f);
  for (size_t j = 0; j < values.size(); j += 2) values[j] = 1.0f;
  Backend& any = backend;
  any.select_neurons(values.data(), nullptr, 1, 64, 0.5f, even);
  any.select_neurons(values.data(), nullptr, 1, 64, 2.0f, none);
  CHECK(any.to_host(even).count() == 32);
  CHECK(any.to_host(none).ids().empty());
}

TEST_CASE("selected neurons are those whose score is not below the threshold") {
  std::mt19937 rng(7);
  const float nan = std::numeric_limits<float>::quiet_NaN();
  for (int64_t n : {1, 31, 63, 64, 65, 200, 20000}) {
    const int n_tokens = n > 1000 ? 2 : 5;
    std::vector<float> values = random_activations(n_tokens * n, rng);
    std::vector<float> sizes = random_activations(n, rng);
    for (size_t i = 0; i < values.size(); i += 7) values[i] = i % 2 == 0 ? 0.5f : nan;
    for (Isa isa : supported_isas()) {
      CpuBackend backend(3, isa);
      for (const float* size :
           {static_cast<const float*>(nullptr), static_cast<const float*>(sizes.data())}) {
        NeuronSet set;
        set.reserve(n_tokens, n);
        backend.select_neurons(values.data(), size, n_tokens, n, 0.5f, set);
        size_t n_ids = 0;
        for (int64_t j = 0; j < n; ++j) {
          bool any = false;
          for (int t = 0; t < n_tokens; ++t) {
            const float value = values[static_cast<size_t>(t * n + j)];
            const float score = size == nullptr ? value : std::fabs(value) * size[j];
            INFO(isa_name(isa) << " n " << n << " token " << t << " neuron " << j);
            REQUIRE(set.wants(t, j) == !(score < 0.5f));
            any |= set.wants(t, j);
          }
          if (any) REQUIRE(set.ids()[n_ids++] == j);
        }
        CHECK(set.ids().size() == n_ids);
        if (n % 64 != 0) CHECK((set.wanted(n_tokens - 1)[set.words() - 1] >> (n % 64)) == 0);
      }
    }
  }
}

}  // namespace hearth::test
