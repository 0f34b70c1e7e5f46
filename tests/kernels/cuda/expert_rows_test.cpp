// Experts' activation and the sum of tokens' rows on CUDA have the CPU's bits, wherever a row was computed.
#include <limits>
#include <numeric>
#include <random>

#include "kernels/cpu/cpu_backend.h"
#include "kernels/cuda/runtime/device_memory.h"
#include "tests/kernels/cuda/bits.h"
#include "tests/kernels/cuda/device_experts.h"
#include "tests/kernels/cuda/quantized_output.h"
#include "tests/kernels/expert_layer.h"
#include "tests/support/catch.h"

namespace hearth::test {
namespace {

constexpr int kSomeExperts = 6;

/// A random choice of three experts; every third pair in four is missing if `missing` is 1, all if 2.
HostChoice some_choice(int n_tokens, int n_used, int missing, std::mt19937& rng) {
  HostChoice choice{n_tokens, n_used, {}, {}, {}};
  std::vector<int32_t> all(static_cast<size_t>(std::max(kSomeExperts, n_used)));
  std::iota(all.begin(), all.end(), 0);
  for (int t = 0; t < n_tokens; ++t) {
    std::shuffle(all.begin(), all.end(), rng);
    choice.experts.insert(choice.experts.end(), all.begin(), all.begin() + n_used);
  }
  for (const int32_t e : choice.experts)
    choice.slots.push_back(missing == 2 || (missing == 1 && e % 4 == 2) ? -1 : e);
  choice.weights = normal_numbers(int64_t{n_tokens} * n_used, rng);
  return choice;
}

/// Numbers with zeros of both signs, infinities and NaNs.
std::vector<float> odd_numbers(int64_t n, std::mt19937& rng) {
  std::vector<float> x = normal_numbers(n, rng, 3.0f);
  for (size_t i = 0; i < x.size(); ++i) {
    if (i % 11 == 0) x[i] = -0.0f;
    if (i % 13 == 0) x[i] = 0.0f;
    if (i % 197 == 5) x[i] = std::numeric_limits<float>::infinity();
    if (i % 211 == 6) x[i] = kNaN;
  }
  return x;
}

/// out += the weighted rows, as CpuBackend::experts() and MixturePass add them. shared: [n_tokens, d_model].
std::vector<float> combined_on_cpu(const HostChoice& choice, const std::vector<float>& rows_by_pair,
                                   const std::vector<float>* logits, const std::vector<float>& shared,
                                   int64_t d_model, std::vector<float> out) {
  const VectorKernels& vector = vector_kernels(*fused_isa());
  std::vector<int32_t> pairs(choice.n_pairs());
  std::iota(pairs.begin(), pairs.end(), 0);
  const int32_t first = 0;
  for (int t = 0; t < choice.n_tokens; ++t) {
    std::vector<float> mixed(static_cast<size_t>(d_model), 0.0f);
    const int64_t pair = int64_t{t} * choice.n_used;
    vector.add_weighted_rows({.x = rows_by_pair.data(),
                              .stride = d_model,
                              .ids = pairs.data() + pair,
                              .weights = choice.weights.data() + pair,
                              .n = choice.n_used},
                             d_model, mixed.data());
    if (logits != nullptr) {
      float weight;
      vector.sigmoid(logits->data() + t, 1, &weight);
      vector.add_weighted_rows(
          {.x = shared.data() + t * d_model, .stride = d_model, .ids = &first, .weights = &weight, .n = 1},
          d_model, mixed.data());
    }
    for (int64_t i = 0; i < d_model; ++i)
      out[static_cast<size_t>(t * d_model + i)] += mixed[static_cast<size_t>(i)];
  }
  return out;
}

}  // namespace

TEST_CASE("CUDA adds up the rows of experts as the CPU does, wherever they are", "[sanitizer]") {
  if (!fused_isa()) return;
  const TestStream stream;
  std::mt19937 rng(71);
  for (const int n_used : {1, 3, 8, 13}) {
    for (const int n_tokens : {0, 1, 3, 9}) {
      for (const int64_t d_model : {32, 257, 576}) {
        for (const int missing : {0, 1, 2}) {
          const bool has_shared = (n_tokens + missing) % 2 == 0, quantizes = d_model % 32 == 0;
          const HostChoice choice = some_choice(n_tokens, n_used, missing, rng);
          const int n_slots = std::max(kSomeExperts, n_used);
          const DeviceChoiceArrays there(choice);
          const DeviceGroups groups(n_tokens, n_used, n_slots, n_slots);
          cuda::group_pairs(there.view(), groups.view(), stream);
          const HostGroups found = groups.read(stream);
          const std::vector<float> by_pair =
              odd_numbers(static_cast<int64_t>(choice.n_pairs()) * d_model, rng);
          // Resident pairs' rows are on the device only, missing pairs' on the host only.
          std::vector<float> rows(by_pair.size(), kNaN);
          const cuda::PinnedArray<float> on_host(std::max<size_t>(1, by_pair.size()));
          std::fill_n(on_host.data(), by_pair.size(), kNaN);
          for (size_t pair = 0; pair < choice.n_pairs(); ++pair) {
            const int32_t row = found.row_of_pair[pair];
            std::copy_n(by_pair.begin() + static_cast<int64_t>(pair) * d_model, d_model,
                        row >= 0 ? rows.data() + row * d_model
                                 : on_host.data() + static_cast<int64_t>(pair) * d_model);
          }
          const std::vector<float> logits = normal_numbers(n_tokens, rng),
                                   shared = odd_numbers(n_tokens * d_model, rng),
                                   before = odd_numbers(n_tokens * d_model, rng);
          const DeviceArray<float> rows_there(rows), logits_there(logits), shared_there(shared), out(before);
          QuantizedOutput quantized(quantizes ? n_tokens * d_model : 0);
          cuda::combine(
              there.view(), groups.view().row_of_pair, rows_there.data(),
              missing == 0 ? nullptr : on_host.data(),
              has_shared ? GatedSharedExpert{logits_there.data(), shared_there.data()} : GatedSharedExpert{},
              d_model, out.data(), stream, quantizes ? quantized.view() : cuda::QuantizedActivations{});
          INFO(n_tokens << " tokens, " << n_used << " experts, " << d_model << " columns, missing "
                        << missing);
          REQUIRE(different(out.read(stream), combined_on_cpu(choice, by_pair, has_shared ? &logits : nullptr,
                                                              shared, d_model, before)) == 0);
          if (quantizes) REQUIRE(quantized.is_of(out.data(), stream));
        }
      }
    }
  }
}

TEST_CASE("CUDA weights the inputs of each token's only expert, and then adds its row as it is") {
  if (!fused_isa()) return;
  const TestStream stream;
  std::mt19937 rng(73);
  for (const int n_tokens : {0, 1, 5}) {
    for (const int64_t n_cols : {31, 32, 576}) {
      const bool quantizes = n_cols % 32 == 0;
      HostChoice choice = some_choice(n_tokens, 1, 0, rng);
      const DeviceChoiceArrays there(choice);
      const std::vector<float> x = normal_numbers(n_tokens * n_cols, rng);
      std::vector<float> expected = x;
      for (size_t i = 0; i < x.size(); ++i) expected[i] *= choice.weights[i / static_cast<size_t>(n_cols)];
      const DeviceArray<float> inputs(x), weighted(x.size());
      QuantizedOutput quantized(quantizes ? n_tokens * n_cols : 0);
      cuda::weigh_inputs(there.view(), inputs.data(), n_cols, weighted.data(), stream,
                         quantizes ? quantized.view() : cuda::QuantizedActivations{});
      INFO(n_tokens << " tokens, " << n_cols << " columns");
      REQUIRE(different(weighted.read(stream), expected) == 0);
      if (quantizes) REQUIRE(quantized.is_of(weighted.data(), stream));

      const DeviceGroups groups(n_tokens, 1, kSomeExperts, kSomeExperts);
      cuda::group_pairs(there.view(), groups.view(), stream);
      const HostGroups found = groups.read(stream);
      const std::vector<float> by_pair = odd_numbers(n_tokens * n_cols, rng),
                               before = odd_numbers(n_tokens * n_cols, rng);
      std::vector<float> rows(by_pair.size());
      for (size_t pair = 0; pair < choice.n_pairs(); ++pair) {
        std::copy_n(by_pair.begin() + static_cast<int64_t>(pair) * n_cols, n_cols,
                    rows.begin() + found.row_of_pair[pair] * n_cols);
      }
      const DeviceArray<float> rows_there(rows), out(before);
      cuda::DeviceChoice as_they_are = there.view();
      as_they_are.weights = nullptr;
      cuda::combine(as_they_are, groups.view().row_of_pair, rows_there.data(), nullptr, {}, n_cols,
                    out.data(), stream);
      choice.weights.assign(choice.weights.size(), 1.0f);
      REQUIRE(different(out.read(stream), combined_on_cpu(choice, by_pair, nullptr, {}, n_cols, before)) ==
              0);
    }
  }
}

TEST_CASE("CUDA applies the activation to the rows of resident pairs only") {
  if (!fused_isa()) return;
  const TestStream stream;
  std::mt19937 rng(72);
  for (const FfnActivation act : {FfnActivation{Activation::kSilu}, FfnActivation{Activation::kSwigluOai},
                                  FfnActivation{Activation::kRelu2},
                                  FfnActivation{.kind = Activation::kSwigluClamped, .limit = 0.7f}}) {
    for (const int missing : {0, 1, 2}) {
      for (const bool gated : {false, true}) {
        if (!gated && act.kind == Activation::kSwigluOai) continue;
        constexpr int kTokens = 5, kUsed = 3;
        constexpr int64_t kWidth = 96;
        const HostChoice choice = some_choice(kTokens, kUsed, missing, rng);
        const DeviceChoiceArrays there(choice);
        const DeviceGroups groups(kTokens, kUsed, kSomeExperts, kSomeExperts);
        cuda::group_pairs(there.view(), groups.view(), stream);
        const auto n = static_cast<int64_t>(groups.read(stream).token_of_row.size()) * kWidth;
        const std::vector<float> gate = normal_numbers(kTokens * kUsed * kWidth, rng),
                                 up = normal_numbers(kTokens * kUsed * kWidth, rng);
        std::vector<float> expected(gate.size(), -7.0f);
        vector_kernels(*fused_isa())
            .gated_activation(act, gate.data(), gated ? up.data() : nullptr, n, expected.data());
        const DeviceArray<float> gates(gate), ups(up), out(std::vector<float>(gate.size(), -7.0f));
        const QuantizedOutput quantized(n);
        cuda::expert_activation(act, gates.data(), gated ? ups.data() : nullptr, groups.view(), kWidth,
                                out.data(), stream, quantized.view());
        REQUIRE(different(out.read(stream), expected) == 0);
        REQUIRE(quantized.is_of(out.data(), stream));
      }
    }
  }
}

}  // namespace hearth::test
