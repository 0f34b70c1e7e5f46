// What parts a layer's neurons between the device and the CPU: sets are split, device rows change.
#include <bit>

#include "kernels/cuda/ops.h"
#include "kernels/cuda/runtime/memory.h"
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

}  // namespace

TEST_CASE("CUDA: a split set has every wanted neuron in one of its parts, and says who any token wants") {
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
      const DeviceArray<std::byte> scratch(cuda::select_scratch_bytes(n));
      cuda::split_set(all.view(), resident_there.data(), hot.view(), cold.data(), any.data(), scratch.data(),
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

TEST_CASE("CUDA: device rows change as listed, and of a neuron's changes the last one counts") {
  constexpr int64_t kNeurons = 1000;
  std::mt19937_64 rng(8);
  for (size_t n_changes : {size_t{0}, size_t{1}, size_t{100}, NeuronTraffic::kMaxChanges}) {
    INFO(n_changes << " changes");
    std::vector<uint64_t> bits = some_bits(kNeurons, rng);
    std::vector<int32_t> device_rows(kNeurons);
    for (size_t i = 0; i < device_rows.size(); ++i) device_rows[i] = static_cast<int32_t>(i);
    const TestStream stream;
    const DeviceArray<uint64_t> resident(bits);
    const DeviceArray<int32_t> device_row(device_rows);
    const cuda::PinnedArray<cuda::RowChanges> changes(1);
    cuda::RowChanges& list = *changes.data();
    list.n = static_cast<int32_t>(n_changes);
    for (size_t i = 0; i < n_changes; ++i) {
      const auto neuron = static_cast<int32_t>(rng() % (i % 2 == 0 ? kNeurons : 70));  // some of them often
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
    cuda::change_rows(changes.data(), resident.data(), device_row.data(), stream);
    REQUIRE(resident.read(stream) == bits);
    const std::vector<int32_t> found = device_row.read(stream);
    for (size_t i = 0; i < device_rows.size(); ++i) {
      if ((bits[i / 64] >> (i % 64) & 1) != 0) REQUIRE(found[i] == device_rows[i]);
    }
  }
}

TEST_CASE("CUDA: neurons that any token wants are joined") {
  std::mt19937 rng(12);
  for (int64_t n : {0, 1, 64, 1000}) {
    for (int n_tokens : {1, 2, 17}) {
      INFO(n << " neurons, " << n_tokens << " tokens");
      const NeuronSet set = random_set(n_tokens, n, 0.2, rng);
      std::vector<uint64_t> expected(set.words());
      for (int t = 0; t < n_tokens; ++t) {
        for (size_t w = 0; w < set.words(); ++w) expected[w] |= set.wanted(t)[w];
      }
      const TestStream stream;
      const DeviceSet there(set);
      const DeviceArray<uint64_t> any(set.words());
      cuda::any_token(there.view(), any.data(), stream);
      REQUIRE(any.read(stream) == expected);
    }
  }
}

}  // namespace hearth::test
