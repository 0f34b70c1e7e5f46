// Neurons on the device: sets, lists and values equal the CPU backend's.
#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/cuda/ops/ops.h"
#include "kernels/cuda/runtime/device_memory.h"
#include "tests/kernels/cuda/device_neurons.h"
#include "tests/kernels/neuron_layer.h"
#include "tests/support/catch.h"

namespace hearth::test {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInf = std::numeric_limits<float>::infinity();

constexpr FfnActivation kActivations[] = {
    {Activation::kSilu},
    {Activation::kGelu},
    {Activation::kGeluErf},
    {Activation::kRelu},
    {Activation::kRelu, 0.4f},
    {Activation::kRelu2},
    {Activation::kDRelu},
    {.kind = Activation::kSwigluClamped, .limit = 1.5f},
    {.kind = Activation::kXielu, .xielu = {.alpha_p = 0.8f, .alpha_n = 0.6f, .beta = 0.5f}}};

/// Gates with zeros of both signs and NaNs.
std::vector<float> some_gates(int64_t n, std::mt19937& rng) {
  std::vector<float> gates = random_activations(n, rng);
  for (size_t i = 0; i < gates.size(); ++i) {
    if (i % 9 == 0) gates[i] = 0.0f;
    if (i % 31 == 1) gates[i] = -0.0f;
    if (i % 97 == 2) gates[i] = kNan;
    if (i % 89 == 3) gates[i] = -kInf;
  }
  return gates;
}

std::vector<int32_t> ids_of(const NeuronSet& set) { return {set.ids().begin(), set.ids().end()}; }

/// Returns whether both are equal or both NaN.
bool alike(float a, float b) { return a == b || (std::isnan(a) && std::isnan(b)); }

}  // namespace

TEST_CASE("CUDA: neurons whose gates pass are kept with their gates") {
  std::mt19937 rng(3);
  CpuBackend cpu(1, supported_isas().front());
  for (const FfnActivation& act : kActivations) {
    for (int64_t n : {0, 1, 64, 200, 5000}) {
      for (int n_tokens : {0, 1, 3, cuda::kOneBlockTokens + 1}) {
        for (double share : {0.0, 0.3, 1.0}) {
          INFO("activation " << static_cast<int>(act.kind) << ", " << n << " neurons, " << n_tokens
                             << " tokens, " << share);
          const NeuronSet set = random_set(n_tokens, n, share, rng);
          const std::vector<int32_t> ids = ids_of(set);
          const size_t stride = static_cast<size_t>(n) + 3, n_listed = ids.size();
          const std::vector<float> gates = some_gates(static_cast<int64_t>(stride) * n_tokens, rng);
          std::vector<float> acts(gates.size()), ones(gates.size(), 1.0f);
          cpu.gated_activation(act, gates.data(), ones.data(), static_cast<int64_t>(gates.size()),
                               acts.data());
          std::vector<int32_t> kept;
          std::vector<size_t> places;
          for (size_t i = 0; i < n_listed; ++i) {
            bool passed = false;
            for (int t = 0; t < n_tokens; ++t) {
              passed |= set.wants(t, ids[i]) && acts[static_cast<size_t>(t) * stride + i] != 0.0f;
            }
            if (!passed) continue;
            kept.push_back(ids[i]);
            places.push_back(i);
          }
          const TestStream stream;
          const DeviceSet there(set);
          const ListOnDevice out(n);
          const DeviceArray<float> gates_there(gates), gates_out(static_cast<size_t>(n * n_tokens));
          const DeviceArray<std::byte> scratch(cuda::keep_scratch_bytes(n));
          cuda::keep_passed(act, there.view(), there.any.view(), gates_there.data(),
                            static_cast<int64_t>(stride), out.view(), gates_out.data(), scratch.data(),
                            stream);
          REQUIRE(out.read(stream) == kept);
          const std::vector<float> found = gates_out.read(stream);
          for (size_t t = 0; t < static_cast<size_t>(n_tokens); ++t) {
            for (size_t i = 0; i < places.size(); ++i) {
              REQUIRE(alike(found[t * static_cast<size_t>(n) + i], gates[t * stride + places[i]]));
            }
          }
        }
      }
    }
  }
}

TEST_CASE(
    "CUDA: values of neurons have the CPU's bits, are zero for tokens that do not want them, and are "
    "counted") {
  std::mt19937 rng(4);
  CpuBackend cpu(1, supported_isas().front());
  for (const FfnActivation& act : kActivations) {
    for (int64_t n : {0, 1, 300}) {
      for (int n_tokens : {0, 1, 4}) {
        for (bool by_number : {false, true}) {
          for (bool gated : {false, true}) {
            INFO("activation " << static_cast<int>(act.kind) << ", " << n << " neurons, " << n_tokens
                               << " tokens, by number " << by_number << ", gated " << gated);
            const NeuronSet set = random_set(n_tokens, n, 0.4, rng);
            const std::vector<int32_t> ids = ids_of(set);
            const size_t stride = static_cast<size_t>(n) + 3, row = static_cast<size_t>(n);
            const std::vector<float> gates = some_gates(static_cast<int64_t>(stride) * n_tokens, rng);
            const std::vector<float> ups = random_activations(n * n_tokens, rng);
            const TestStream stream;
            const DeviceSet there(set);
            // Every second neuron has passed.
            std::vector<int32_t> listed;
            for (size_t i = 0; i < ids.size(); i += 2) listed.push_back(ids[i]);
            const ListOnDevice passed(listed, n);
            const DeviceArray<float> gates_there(gates), ups_there(ups), values(ups.size());
            const DeviceArray<cuda::DeviceCounts> counts(std::vector<cuda::DeviceCounts>(1));
            cuda::neuron_values({.activation = act,
                                 .set = there.view(),
                                 .passed = passed.view(),
                                 .gates = gates_there.data(),
                                 .gates_stride = static_cast<int64_t>(stride),
                                 .gates_by_number = by_number,
                                 .ups = gated ? ups_there.data() : nullptr},
                                values.data(), counts.data(), stream);
            const std::vector<float> found = values.read(stream);
            cuda::DeviceCounts expected_counts{};
            if (n_tokens > 0 && !by_number) expected_counts.gate_rows = ids.size();
            if (n_tokens > 0 && gated) expected_counts.up_rows = listed.size();
            for (int t = 0; t < n_tokens; ++t) {
              for (const int32_t id : ids) expected_counts.proposed += set.wants(t, id) ? 1 : 0;
            }
            std::vector<bool> is_active(listed.size());
            for (size_t t = 0; t < static_cast<size_t>(n_tokens); ++t) {
              for (size_t i = 0; i < listed.size(); ++i) {
                const float gate = gates[t * stride + (by_number ? static_cast<size_t>(listed[i]) : i)];
                const float up = gated ? ups[t * row + i] : 1.0f;
                float expected = 0.0f;
                if (set.wants(static_cast<int>(t), listed[i])) {
                  cpu.gated_activation(act, &gate, &up, 1, &expected);
                  expected_counts.passed += gate <= act.threshold ? 0 : 1;
                }
                REQUIRE(alike(found[t * row + i], expected));
                expected_counts.active += expected != 0.0f ? 1 : 0;
                if (expected != 0.0f) is_active[i] = true;
              }
            }
            expected_counts.down_rows = static_cast<unsigned long long>(std::ranges::count(is_active, true));
            const cuda::DeviceCounts counted = counts.read(stream)[0];
            REQUIRE(counted.gate_rows == expected_counts.gate_rows);
            REQUIRE(counted.up_rows == expected_counts.up_rows);
            REQUIRE(counted.down_rows == expected_counts.down_rows);
            REQUIRE(counted.proposed == expected_counts.proposed);
            REQUIRE(counted.passed == expected_counts.passed);
            REQUIRE(counted.active == expected_counts.active);
          }
        }
      }
    }
  }
}

TEST_CASE("CUDA: values given by neuron number are listed for the tokens that want them, and counted") {
  std::mt19937 rng(14);
  for (int64_t n : {0, 1, 300}) {
    for (int n_tokens : {1, 4}) {
      INFO(n << " neurons, " << n_tokens << " tokens");
      const NeuronSet set = random_set(n_tokens, n, 0.4, rng);
      const auto row = static_cast<size_t>(n);
      const std::vector<float> values = some_gates(n * n_tokens, rng);
      const TestStream stream;
      const DeviceSet there(set);
      const DeviceArray<float> by_number(values), listed(values.size());
      const DeviceArray<cuda::DeviceCounts> counts(std::vector<cuda::DeviceCounts>(1));
      cuda::listed_values(there.view(), by_number.data(), listed.data(), counts.data(), stream);
      const std::vector<float> found = listed.read(stream);
      unsigned long long proposed = 0, active = 0, down_rows = 0;
      for (size_t i = 0; i < set.ids().size(); ++i) {
        const int32_t id = set.ids()[i];
        bool any = false;
        for (int t = 0; t < n_tokens; ++t) {
          const auto at = static_cast<size_t>(t) * row;
          const float value = set.wants(t, id) ? values[at + static_cast<size_t>(id)] : 0.0f;
          REQUIRE(alike(found[at + i], value));
          proposed += set.wants(t, id) ? 1 : 0;
          active += value != 0.0f ? 1 : 0;
          any = any || value != 0.0f;
        }
        down_rows += any ? 1 : 0;
      }
      const cuda::DeviceCounts counted = counts.read(stream)[0];
      REQUIRE(counted.proposed == proposed);
      REQUIRE(counted.active == active);
      REQUIRE(counted.down_rows == down_rows);
      REQUIRE(counted.gate_rows + counted.up_rows + counted.passed == 0);
    }
  }
}

TEST_CASE("CUDA: values that the CPU does not select are dropped, and the rest is counted") {
  std::mt19937 rng(9);
  CpuBackend cpu(1, supported_isas().front());
  for (int64_t n : {0, 1, 64, 65, 300, 1000}) {
    for (int n_tokens : {0, 1, 5}) {
      for (float least : {0.0f, 0.5f, kInf}) {
        INFO(n << " neurons, " << n_tokens << " tokens, at least " << least);
        const NeuronSet set = random_set(n_tokens, n, 0.6, rng);
        const std::vector<int32_t> ids = ids_of(set);
        const size_t row = static_cast<size_t>(n);
        std::vector<float> by_number = random_activations(n_tokens * n, rng);
        for (size_t i = 0; i < by_number.size(); i += 5) by_number[i] = i % 2 == 0 ? 0.0f : kNan;
        std::vector<float> sizes = random_activations(n, rng);
        for (float& size : sizes) size = std::fabs(size);
        NeuronSet large;
        large.reserve(n_tokens, n);
        cpu.select_neurons(by_number.data(), sizes.data(), n_tokens, n, least, large);

        // by list index; 0 for tokens that do not want the neuron
        std::vector<float> values(by_number.size());
        std::vector<float> expected = values;
        int64_t kept = 0, active = 0, down_rows = 0;
        for (size_t i = 0; i < ids.size(); ++i) {
          bool any = false;
          for (size_t t = 0; t < static_cast<size_t>(n_tokens); ++t) {
            if (!set.wants(static_cast<int>(t), ids[i])) continue;
            const float value = by_number[t * row + static_cast<size_t>(ids[i])];
            values[t * row + i] = value;
            if (!large.wants(static_cast<int>(t), ids[i])) continue;
            expected[t * row + i] = value;
            ++kept;
            active += value != 0.0f ? 1 : 0;
            any |= value != 0.0f;
          }
          down_rows += any ? 1 : 0;
        }
        const TestStream stream;
        const DeviceSet there(set);
        const DeviceArray<float> values_there(values), sizes_there(sizes);
        const DeviceArray<cuda::DeviceCounts> counts(std::vector<cuda::DeviceCounts>(1));
        cuda::drop_below(there.view(), there.any.view(), sizes_there.data(), least, values_there.data(),
                         counts.data(), stream);
        const std::vector<float> found = values_there.read(stream);
        for (size_t i = 0; i < found.size(); ++i) REQUIRE(alike(found[i], expected[i]));
        NeuronCounts counted;
        counts.read(stream)[0].add_to(counted);
        CHECK(counted.proposed == kept);
        CHECK(counted.active == active);
        CHECK(counted.down_rows == down_rows);
        CHECK(counted.gate_rows + counted.up_rows + counted.passed == 0);
      }
    }
  }
}

TEST_CASE("CUDA: the same neurons are selected as on the CPU") {
  std::mt19937 rng(1);
  CpuBackend cpu(1, supported_isas().front());
  for (int64_t n : {0, 1, 31, 64, 65, 200, 513, 3000}) {
    for (int n_tokens : {0, 1, 3, 16}) {
      std::vector<float> values = random_activations(n_tokens * n, rng);
      const std::vector<float> sizes = random_activations(n, rng);
      for (size_t i = 0; i < values.size(); i += 7) values[i] = i % 2 == 0 ? 0.5f : kNan;
      for (float at_least : {-kInf, 0.5f, 1e9f}) {
        for (bool sized : {false, true}) {
          INFO(n << " neurons, " << n_tokens << " tokens, at least " << at_least << (sized ? ", sized" : ""));
          NeuronSet expected;
          expected.reserve(n_tokens, n);
          cpu.select_neurons(values.data(), sized ? sizes.data() : nullptr, n_tokens, n, at_least, expected);
          const TestStream stream;
          const DeviceArray<float> on_device(values), sizes_there(sizes);
          const DeviceSet set(n_tokens, n);
          cuda::select_neurons(on_device.data(), sized ? sizes_there.data() : nullptr, n_tokens, n, at_least,
                               set.view(), stream);
          cuda::list_wanted(set.view(), stream);
          REQUIRE(set.any.read(stream) == std::vector<int32_t>(expected.ids().begin(), expected.ids().end()));
          const uint64_t* wanted = expected.wanted(0);
          const size_t n_words = static_cast<size_t>(n_tokens) * expected.words();
          REQUIRE(set.wanted.read(stream) == std::vector<uint64_t>(wanted, wanted + n_words));
          if (n_tokens > 0) REQUIRE(set.any_bits.read(stream) == DeviceSet::any_of(expected));
        }
      }
    }
  }
}

TEST_CASE("CUDA: sums over neurons, with the CPU's, end in the residual stream and leave zeros") {
  for (int64_t n_cols : {0, 1, 255, 256, 1000}) {
    for (int n_tokens : {0, 1, 3}) {
      const size_t n = static_cast<size_t>(n_tokens * n_cols), tokens = static_cast<size_t>(n_tokens);
      std::vector<float> out(n), bias(static_cast<size_t>(n_cols));
      for (size_t i = 0; i < n; ++i) out[i] = 0.3f * static_cast<float>(i % 17);
      for (size_t i = 0; i < bias.size(); ++i) bias[i] = 0.7f - static_cast<float>(i % 5);
      std::vector<int64_t> values(n);
      std::mt19937_64 rng(2);
      for (size_t i = 0; i < n; ++i) values[i] = static_cast<int64_t>(rng()) >> (i % 62 + 2);
      const cuda::PinnedArray<int64_t> cpu_sums(n);
      const cuda::PinnedArray<int32_t> cpu_poison(tokens), any(1);
      for (size_t i = 0; i < n; ++i) cpu_sums.data()[i] = static_cast<int64_t>(rng()) >> (i % 61 + 3);
      std::vector<int32_t> flags(tokens, 0);
      if (n_tokens > 1) flags[1] = 1;
      for (size_t t = 0; t < tokens; ++t) cpu_poison.data()[t] = t == 2 ? 1 : 0;
      enum class OfCpu { kNever, kNone, kSome };
      for (const OfCpu of_cpu : {OfCpu::kNever, OfCpu::kNone, OfCpu::kSome}) {
        const bool biased = of_cpu != OfCpu::kNone, both = of_cpu == OfCpu::kSome;
        *any.data() = both ? 1 : 0;
        const TestStream stream;
        const DeviceArray<int64_t> sums(values);
        const DeviceArray<int32_t> poison(flags);
        const DeviceArray<float> result(out), bias_there(bias);
        cuda::CpuSums other;
        if (of_cpu != OfCpu::kNever) other = {{cpu_sums.data(), cpu_poison.data()}, any.data()};
        cuda::end_sums({sums.data(), poison.data()}, other, biased ? bias_there.data() : nullptr, n_tokens,
                       n_cols, result.data(), stream);
        const std::vector<float> found = result.read(stream);
        for (size_t i = 0; i < n; ++i) {
          const size_t t = i / static_cast<size_t>(n_cols), c = i % static_cast<size_t>(n_cols);
          const int64_t units = values[i] + (both ? cpu_sums.data()[i] : 0);
          float expected = out[i] + static_cast<float>(units) * 0x1p-36f;
          if (biased) expected += bias[c];
          INFO("token " << t << " column " << c);
          if (flags[t] != 0 || (both && t == 2)) {
            REQUIRE(std::isnan(found[i]));
          } else {
            REQUIRE(found[i] == expected);
          }
        }
        REQUIRE(sums.read(stream) == std::vector<int64_t>(n, 0));
        if (n_cols > 0) REQUIRE(poison.read(stream) == std::vector<int32_t>(tokens, 0));
      }
    }
  }
}

}  // namespace hearth::test
