// The CPU's share of a layer is handed over, computed while the device computes, and merged.
#include "kernels/cuda/hybrid/cold_share.h"

#include <atomic>
#include <cstring>
#include <thread>

#include "kernels/cuda/hybrid/activation_exchange.h"
#include "kernels/cuda/ops/ops.h"
#include "kernels/cuda/runtime/device_memory.h"
#include "tests/kernels/cuda/device_neurons.h"
#include "tests/kernels/neuron_layer.h"
#include "tests/support/catch.h"

namespace hearth::test {
namespace {

/// The device's scratch, as far as sharing a layer needs it.
struct SharedScratch {
  explicit SharedScratch(const StepBounds& bounds) : arena(size_t{16} << 20), scratch(arena, bounds) {}
  cuda::Arena arena;
  cuda::Scratch scratch;
};

}  // namespace

TEST_CASE("CUDA: once a hand-over's number has arrived, so has all its data, every time") {
  std::mt19937 rng(3);
  const TestStream stream;
  const DeviceArray<uint32_t> state(std::vector<uint32_t>{0, 0});
  const cuda::PinnedArray<uint32_t> number(1);
  *number.data() = 0;
  uint32_t n_done = 0;
  for (size_t n_words : {1, 3, 4, 5, 1000, 70'001}) {
    const cuda::PinnedArray<uint32_t> first(n_words), second(7);
    for (int repeat = 0; repeat < 5; ++repeat) {
      INFO(n_words << " words, hand-over " << n_done);
      std::vector<uint32_t> a(n_words), b(7);
      for (uint32_t& word : a) word = static_cast<uint32_t>(rng());
      for (uint32_t& word : b) word = static_cast<uint32_t>(rng());
      const DeviceArray<uint32_t> a_there(a), b_there(b);
      const cuda::HandOver what{.parts = {{a_there.data(), first.data(), static_cast<int64_t>(n_words)},
                                          {b_there.data(), second.data(), 7}},
                                .state = state.data(),
                                .number = number.data()};
      cuda::hand_over(what, stream);
      ++n_done;
      while (std::atomic_ref(*number.data()).load(std::memory_order_acquire) != n_done)
        std::this_thread::yield();
      REQUIRE(std::memcmp(first.data(), a.data(), n_words * sizeof(uint32_t)) == 0);
      REQUIRE(std::memcmp(second.data(), b.data(), b.size() * sizeof(uint32_t)) == 0);
      stream.wait();
    }
  }
}

TEST_CASE("CUDA: the CPU's share arrives whole, and its sums are added to the device's") {
  std::mt19937 rng(4);
  CpuBackend cpu(2, supported_isas().front()), alone(1, supported_isas().front());
  const LayerShape shape{.d_model = 96, .d_ff = 224};
  const Layer layer = random_layer(shape, rng);
  const StepBounds bounds{.max_tokens = 20, .max_cols = shape.d_ff, .d_model = shape.d_model, .shares = true};
  alone.reserve(bounds);
  const SharedScratch memory(bounds);
  const cuda::Scratch& scratch = memory.scratch;
  const TestStream stream;
  cpu.reserve(bounds);
  cuda::ColdShare share(cpu);
  share.reserve(bounds, stream, scratch);
  for (int n_tokens : {1, 3, 20}) {
    for (bool gates_given : {false, true}) {
      for (double part : {0.0, 0.5}) {
        INFO(n_tokens << " tokens, gates " << gates_given << ", " << part << " of the neurons");
        const auto tokens = static_cast<size_t>(n_tokens);
        const size_t n_sums = tokens * static_cast<size_t>(shape.d_model);
        const NeuronSet all = random_set(n_tokens, shape.d_ff, part, rng);
        const std::vector<float> x = random_activations(n_tokens * shape.d_model, rng);
        std::vector<float> gates(tokens * static_cast<size_t>(shape.d_ff));
        const Product product{.weight = layer.ffn.gate,
                              .bias = layer.ffn.gate_bias,
                              .out = gates.data(),
                              .out_stride = shape.d_ff};
        alone.matmul(x.data(), n_tokens, {&product, 1});
        std::vector<int64_t> expected(n_sums, 5);
        std::vector<int32_t> expected_poison(tokens, 0);
        NeuronCounts counts, expected_counts;
        alone.ffn_neuron_sums(layer.ffn, x.data(), n_tokens, all, gates_given ? gates.data() : nullptr,
                              {expected.data(), expected_poison.data()}, expected_counts);

        // The device has no neurons, so the CPU computes all.
        const DeviceSet there(all), hot(n_tokens, shape.d_ff);
        const DeviceArray<uint64_t> resident(std::vector<uint64_t>(all.words(), 0));
        const DeviceArray<float> x_there(x), gates_there(gates);
        const DeviceArray<int64_t> sums(std::vector<int64_t>(n_sums, 5));
        const DeviceArray<int32_t> poison(std::vector<int32_t>(tokens, 0));
        const DeviceArray<float> out(std::vector<float>(n_sums, 0.25f));
        const cuda::HandOver what = share.begin({.x = x_there.data(),
                                                 .gates = gates_given ? gates_there.data() : nullptr,
                                                 .n_tokens = n_tokens,
                                                 .n_neurons = shape.d_ff,
                                                 .n_cols = shape.d_model},
                                                scratch);
        cuda::part_and_hand_over({.all = there.view(),
                                  .resident = resident.data(),
                                  .hot = hot.view(),
                                  .cold = share.cold_bits(),
                                  .any = share.any_bits(),
                                  .cold_on_host = true},
                                 nullptr, nullptr, what, stream);
        share.wait(stream);
        REQUIRE(hot.any.read(stream).empty());
        REQUIRE(std::vector<uint64_t>(share.any().begin(), share.any().end()) == DeviceSet::any_of(all));
        REQUIRE(std::vector<uint64_t>(share.any_cold().begin(), share.any_cold().end()) ==
                DeviceSet::any_of(all));
        share.compute(layer.ffn, counts);
        REQUIRE(*share.sums().any == (all.ids().empty() ? 0 : 1));
        cuda::end_sums({sums.data(), poison.data()}, share.sums(), nullptr, n_tokens, shape.d_model,
                       out.data(), stream);
        REQUIRE(expected_poison == std::vector<int32_t>(tokens, 0));
        std::vector<float> rounded(n_sums);
        for (size_t i = 0; i < n_sums; ++i) rounded[i] = 0.25f + static_cast<float>(expected[i]) * 0x1p-36f;
        REQUIRE(out.read(stream) == rounded);
        REQUIRE(counts.down_rows == expected_counts.down_rows);
        REQUIRE(counts.active == expected_counts.active);
      }
    }
  }
}

TEST_CASE("CUDA: activations go to the host, and its results are added, layer after layer") {
  std::mt19937 rng(5);
  constexpr int kTokens = 3;
  const StepBounds bounds{.max_tokens = kTokens, .max_cols = 160, .d_model = 96, .n_experts = 7};
  const SharedScratch memory(bounds);
  const TestStream stream;
  cuda::ActivationExchange exchange;
  exchange.reserve(bounds, stream, memory.scratch);
  for (int layer = 0; layer < 20; ++layer) {
    const int n_tokens = 1 + layer % kTokens;
    INFO("layer " << layer << ", " << n_tokens << " tokens");
    const std::vector<float> logits = random_activations(n_tokens * 7, rng),
                             x = random_activations(n_tokens * 96, rng),
                             out = random_activations(n_tokens * 96, rng);
    const DeviceArray<float> logits_there(logits), x_there(x), out_there(out);
    cuda::hand_over(exchange.begin({logits_there.data(), logits.size()}, {x_there.data(), x.size()}), stream);
    exchange.wait(stream);
    const Backend::HandedOver arrived = exchange.arrived();
    REQUIRE(std::equal(logits.begin(), logits.end(), arrived.first));
    REQUIRE(std::equal(x.begin(), x.end(), arrived.second));
    std::vector<float> computed(x.size()), expected(x.size());
    for (size_t i = 0; i < x.size(); ++i) {
      computed[i] = 3 * arrived.second[i] + arrived.first[0];
      expected[i] = out[i] + computed[i];
    }
    const float* given = exchange.give(computed.data(), static_cast<int64_t>(computed.size()));
    cuda::add_from_host(given, static_cast<int64_t>(computed.size()), out_there.data(), stream);
    REQUIRE(out_there.read(stream) == expected);
  }
}

TEST_CASE("CUDA: waiting for a hand-over that was never enqueued is an error, not an endless wait") {
  CpuBackend cpu(1, supported_isas().front());
  const StepBounds bounds{.max_tokens = 1, .max_cols = 64, .shares = true};
  const SharedScratch memory(bounds);
  const TestStream stream;
  cuda::ColdShare share(cpu);
  share.reserve(bounds, stream, memory.scratch);
  const DeviceArray<float> x(64);
  share.begin({.x = x.data(), .n_tokens = 1, .n_neurons = 64, .n_cols = 64}, memory.scratch);
  REQUIRE_THROWS_AS(share.wait(stream), std::runtime_error);
}

}  // namespace hearth::test
