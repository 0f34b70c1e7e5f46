// Tests how a layer's neurons are divided between the device and the CPU: sets are split, and device rows
// change.
#include <algorithm>
#include <atomic>
#include <thread>

#include "kernels/cuda/ops/ops.h"
#include "kernels/cuda/runtime/device_memory.h"
#include "tests/kernels/cuda/device_neurons.h"
#include "tests/kernels/neuron_layer.h"
#include "tests/support/catch.h"

namespace hearth::test {
namespace {

std::vector<uint64_t> some_bits(int64_t n, std::mt19937_64& rng) {
  std::vector<uint64_t> bits(static_cast<size_t>((n + 63) / 64));
  for (uint64_t& word : bits) word = rng();
  if (n % 64 != 0) bits.back() &= (uint64_t{1} << (n % 64)) - 1;
  return bits;
}

/// Makes random changes, several to some neurons. list: each change; bits and device_rows: the state after
/// all of them.
void change(size_t n_changes, int64_t n_neurons, std::mt19937_64& rng, cuda::RowChanges& list,
            std::vector<uint64_t>& bits, std::vector<int32_t>& device_rows) {
  list.n = static_cast<int32_t>(n_changes);
  for (size_t i = 0; i < n_changes; ++i) {
    const auto among = static_cast<uint64_t>(i % 2 == 0 ? n_neurons : std::min(n_neurons, int64_t{70}));
    const auto neuron = static_cast<int32_t>(rng() % among);
    list.list[i] = {neuron, i % 3 == 0 ? -1 : static_cast<int32_t>(2000 + i)};
    const uint64_t bit = uint64_t{1} << (neuron % 64);
    uint64_t& word = bits[static_cast<size_t>(neuron) / 64];
    if (list.list[i].device_row < 0) {
      word &= ~bit;
    } else {
      word |= bit;
      device_rows[static_cast<size_t>(neuron)] = list.list[i].device_row;
    }
  }
}

}  // namespace

TEST_CASE("CUDA: a split set has every wanted neuron in one part, and lists those wanted by any token") {
  std::mt19937 rng(6);
  std::mt19937_64 rng64(7);
  for (int64_t n : {1, 64, 65, 1000}) {
    for (int n_tokens : {1, 3}) {
      INFO(n << " neurons, " << n_tokens << " tokens");
      const NeuronSet set = random_set(n_tokens, n, 0.4, rng);
      const std::vector<uint64_t> resident = some_bits(n, rng64);
      const size_t words = resident.size();
      const TestStream stream;
      const DeviceSet all(set), hot(n_tokens, n);
      const DeviceArray<uint64_t> resident_there(resident), cold(words * static_cast<size_t>(n_tokens)),
          any(2 * words);
      cuda::split_set({.all = all.view(),
                       .resident = resident_there.data(),
                       .hot = hot.view(),
                       .cold = cold.data(),
                       .any = any.data()},
                      stream);
      const std::vector<uint64_t> hot_found = hot.wanted.read(stream), cold_found = cold.read(stream);
      std::vector<uint64_t> any_expected(2 * words);
      std::vector<int32_t> hot_ids;
      for (int t = 0; t < n_tokens; ++t) {
        for (size_t w = 0; w < words; ++w) {
          const size_t i = static_cast<size_t>(t) * words + w;
          REQUIRE(hot_found[i] == (set.wanted(t)[w] & resident[w]));
          REQUIRE(cold_found[i] == (set.wanted(t)[w] & ~resident[w]));
          any_expected[w] |= set.wanted(t)[w];
          any_expected[words + w] |= cold_found[i];
        }
      }
      REQUIRE(any.read(stream) == any_expected);
      for (const int32_t id : set.ids()) {
        if ((resident[static_cast<size_t>(id) / 64] >> (id % 64) & 1) != 0) hot_ids.push_back(id);
      }
      REQUIRE(hot.any.read(stream) == hot_ids);
    }
  }
}

TEST_CASE("CUDA: device rows change as listed, and the last of a neuron's changes counts") {
  constexpr int64_t kNeurons = 1000;
  std::mt19937_64 rng(8);
  for (size_t n_changes : {size_t{0}, size_t{1}, size_t{100}, RowPrefetcher::kMaxChanges}) {
    INFO(n_changes << " changes");
    std::vector<uint64_t> bits = some_bits(kNeurons, rng);
    std::vector<int32_t> device_rows(kNeurons);
    for (size_t i = 0; i < device_rows.size(); ++i) device_rows[i] = static_cast<int32_t>(i);
    const TestStream stream;
    const DeviceArray<uint64_t> resident(bits);
    const DeviceArray<int32_t> device_row(device_rows);
    const cuda::PinnedArray<cuda::RowChanges> changes(1);
    change(n_changes, kNeurons, rng, *changes.data(), bits, device_rows);
    cuda::change_rows(changes.data(), resident.data(), device_row.data(), stream);
    REQUIRE(resident.read(stream) == bits);
    const std::vector<int32_t> found = device_row.read(stream);
    for (size_t i = 0; i < device_rows.size(); ++i) {
      if ((bits[i / 64] >> (i % 64) & 1) != 0) REQUIRE(found[i] == device_rows[i]);
    }
  }
}

TEST_CASE(
    "CUDA: the fused kernel changes rows, splits a set and hands over the CPU's part like separate kernels") {
  std::mt19937 rng(15);
  std::mt19937_64 rng64(16);
  const TestStream stream;
  const DeviceArray<uint32_t> state(std::vector<uint32_t>{0, 0});
  const cuda::PinnedArray<uint32_t> number(1);
  *number.data() = 0;
  uint32_t n_done = 0;
  for (int64_t n : {1, 65, 20'000}) {
    for (int n_tokens : {1, 3, cuda::kOneBlockTokens, cuda::kOneBlockTokens + 1}) {
      for (int64_t n_copied : {5, 9000}) {
        INFO(n << " neurons, " << n_tokens << " tokens, " << n_copied << " words");
        const NeuronSet set = random_set(n_tokens, n, 0.4, rng);
        std::vector<uint64_t> resident = some_bits(n, rng64);
        const size_t words = resident.size(), copied = static_cast<size_t>(n_copied);
        const DeviceSet all(set), hot(n_tokens, n);
        const DeviceArray<uint64_t> resident_there(resident);
        std::vector<int32_t> rows(static_cast<size_t>(n));
        const DeviceArray<int32_t> rows_there(rows);
        const cuda::PinnedArray<cuda::RowChanges> changes(1);
        const bool changing = n_copied > 5;
        if (changing) change(100, n, rng64, *changes.data(), resident, rows);
        std::vector<uint32_t> x(copied);
        for (uint32_t& word : x) word = static_cast<uint32_t>(rng64());
        const DeviceArray<uint32_t> x_there(x);
        const cuda::PinnedArray<uint32_t> x_found(copied);
        const cuda::PinnedArray<uint64_t> cold(words * static_cast<size_t>(n_tokens)), any(2 * words);
        cuda::part_and_hand_over({.all = all.view(),
                                  .resident = resident_there.data(),
                                  .hot = hot.view(),
                                  .cold = cold.data(),
                                  .any = any.data(),
                                  .cold_on_host = true},
                                 changing ? changes.data() : nullptr, rows_there.data(),
                                 {.parts = {{x_there.data(), x_found.data(), n_copied}},
                                  .state = state.data(),
                                  .number = number.data()},
                                 stream);
        ++n_done;
        while (std::atomic_ref(*number.data()).load(std::memory_order_acquire) != n_done)
          std::this_thread::yield();
        for (size_t w = 0; w < words; ++w) {
          uint64_t any_wanted = 0;
          for (int t = 0; t < n_tokens; ++t) {
            REQUIRE(cold.data()[static_cast<size_t>(t) * words + w] == (set.wanted(t)[w] & ~resident[w]));
            any_wanted |= set.wanted(t)[w];
          }
          REQUIRE(any.data()[w] == any_wanted);
          REQUIRE(any.data()[words + w] == (any_wanted & ~resident[w]));
        }
        REQUIRE(std::vector<uint32_t>(x_found.data(), x_found.data() + copied) == x);
        std::vector<int32_t> hot_ids;
        for (const int32_t id : set.ids()) {
          if ((resident[static_cast<size_t>(id) / 64] >> (id % 64) & 1) != 0) hot_ids.push_back(id);
        }
        REQUIRE(hot.any.read(stream) == hot_ids);
        const std::vector<uint64_t> hot_found = hot.wanted.read(stream);
        for (size_t i = 0; i < hot_found.size(); ++i)
          REQUIRE(hot_found[i] == (set.wanted(0)[i] & resident[i % words]));
        REQUIRE(resident_there.read(stream) == resident);
        const std::vector<int32_t> rows_found = rows_there.read(stream);
        for (size_t i = 0; i < rows.size(); ++i) {
          if ((resident[i / 64] >> (i % 64) & 1) != 0) REQUIRE(rows_found[i] == rows[i]);
        }
      }
    }
  }
}

}  // namespace hearth::test
