// Tests the device's records about single neurons, list by list, together with the CPU's additions.
#include "kernels/cuda/hybrid/noted_neurons.h"

#include <random>

#include "kernels/cuda/runtime/device_memory.h"
#include "tests/kernels/cuda/device_neurons.h"
#include "tests/kernels/neuron_layer.h"
#include "tests/support/catch.h"

namespace hearth::test {
namespace {

/// The result that a call must find: bits and values [n_tokens, n].
struct Found {
  Found(int n_tokens, int64_t n)
      : bits(static_cast<size_t>(n_tokens * ((n + 63) / 64))), values(static_cast<size_t>(n_tokens * n)) {}
  ActiveNeurons view() { return {bits.data(), values.data()}; }
  void set(int token, int64_t n, int32_t id, float value) {
    const auto word = static_cast<size_t>(token * ((n + 63) / 64) + id / 64);
    bits[word] |= uint64_t{1} << (id % 64);
    values[static_cast<size_t>(token * n + id)] = value;
  }
  bool operator==(const Found&) const = default;
  std::vector<uint64_t> bits;
  std::vector<float> values;
};

}  // namespace

TEST_CASE("CUDA: neurons are noted list by list, together with those of the CPU") {
  std::mt19937 rng(3);
  const TestStream stream;
  const DeviceArray<uint32_t> state(std::vector<uint32_t>{0, 7});
  cuda::NotedNeurons noted;
  constexpr int64_t kMost = 1000;
  constexpr int kCalls = 2, kMostTokens = 3;
  noted.reserve(kCalls, kMostTokens, kMost, state.data());
  for (const int64_t n : {int64_t{1}, int64_t{64}, int64_t{65}, kMost}) {
    for (const int n_tokens : {1, kMostTokens}) {
      INFO(n << " neurons, " << n_tokens << " tokens");
      noted.begin_step();
      std::vector<Found> expected(kCalls, Found(n_tokens, n));
      for (int call = 0; call < kCalls; ++call) {
        Found& all = expected[static_cast<size_t>(call)];
        cuda::NeuronNotes notes = noted.begin(n_tokens, n);
        // Each neuron is in one of three lists of the device, in the CPU's, or in none.
        std::vector<std::vector<int32_t>> lists(3);
        NeuronSet cold;
        cold.reserve(n_tokens, n);
        cold.clear(n_tokens, n);
        Found of_cpu(n_tokens, n);
        std::vector<float> values(static_cast<size_t>(n_tokens * n));
        for (int32_t id = 0; id < n; ++id) {
          const unsigned who = rng() % 6;
          for (int t = 0; t < n_tokens; ++t) {
            const float value =
                rng() % 2 == 0 ? 0.0f : static_cast<float>(id + 1) * (t % 2 == 0 ? 1.0f : -0.5f);
            values[static_cast<size_t>(t * n + id)] = value;
            if (who < 5 && value != 0.0f) all.set(t, n, id, value);
            if (who == 3 || who == 4) {
              cold.wanted(t)[id / 64] |= uint64_t{1} << (id % 64);
              if (value != 0.0f) of_cpu.set(t, n, id, value);
            }
          }
          if (who < 3) lists[who].push_back(id);
        }
        for (const std::vector<int32_t>& ids : lists) {
          const ListOnDevice list(ids, n);
          std::vector<float> by_place(static_cast<size_t>(n_tokens * n));
          for (int t = 0; t < n_tokens; ++t) {
            for (size_t i = 0; i < ids.size(); ++i) {
              by_place[static_cast<size_t>(t * n) + i] = values[static_cast<size_t>(t * n + ids[i])];
            }
          }
          const DeviceArray<float> there(by_place);
          cuda::note_neurons(list.view(), there.data(), n_tokens, notes, stream);
          stream.wait();  // the list is destroyed
          notes.first = false;
        }
        cold.collect();
        noted.add(cold, of_cpu.view());
      }
      for (int call = 0; call < kCalls; ++call) {
        Found found(n_tokens, n);
        std::ranges::fill(found.bits, ~uint64_t{0});  // all are written
        noted.read(call, found.view());
        REQUIRE(found == expected[static_cast<size_t>(call)]);
      }
    }
  }
}

TEST_CASE("CUDA: a call without notes has found no neurons") {
  const DeviceArray<uint32_t> state(std::vector<uint32_t>{0, 0});
  cuda::NotedNeurons noted;
  CHECK_THROWS_AS(noted.reserve(1 << 30, 1 << 30, int64_t{1} << 40, state.data()), std::bad_alloc);
  noted.reserve(1, 2, 70, state.data());
  noted.begin_step();
  noted.begin(2, 70);
  Found found(2, 70);
  std::ranges::fill(found.bits, ~uint64_t{0});
  noted.read(0, found.view());
  CHECK(found == Found(2, 70));
}

}  // namespace hearth::test
