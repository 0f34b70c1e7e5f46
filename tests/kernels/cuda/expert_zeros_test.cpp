// Skipping zeros inside experts on CUDA: the lists of active neurons, and the sums over their down rows,
// which have the bits of the CPU's kernels for every form of down columns.
#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <memory>
#include <numeric>

#include "kernels/cpu/isa/down_kernels.h"
#include "kernels/cpu/isa/vector_kernels.h"
#include "kernels/quant/coded_columns.h"
#include "tests/kernels/cuda/bits.h"
#include "tests/kernels/cuda/device_experts.h"
#include "tests/kernels/expert_layer.h"
#include "tests/kernels/weight_rows.h"
#include "tests/support/catch.h"

namespace hearth::test {
namespace {

constexpr int kZeroExperts = 5, kZeroSlots = 4, kZeroUsed = 2;
constexpr std::array<int32_t, kZeroExperts> kZeroSlotOf = {2, 3, 0, -1, 1};

/// Tokens with two experts each. Most of them choose expert 1, and expert 3 has no slot.
HostChoice choice_of(int n_tokens, std::mt19937& rng) {
  HostChoice choice{n_tokens, kZeroUsed, {}, {}, {}};
  std::vector<int32_t> all(kZeroExperts);
  std::iota(all.begin(), all.end(), 0);
  for (int t = 0; t < n_tokens; ++t) {
    std::shuffle(all.begin(), all.end(), rng);
    if (t % 3 != 0) std::iter_swap(std::ranges::find(all, 1), all.begin() + t % kZeroUsed);
    choice.experts.insert(choice.experts.end(), all.begin(), all.begin() + kZeroUsed);
  }
  for (const int32_t e : choice.experts) choice.slots.push_back(kZeroSlotOf[static_cast<size_t>(e)]);
  choice.weights.resize(choice.experts.size(), 1.0f);
  return choice;
}

/// The active neurons of one row.
struct Listed {
  std::vector<int32_t> ids;
  std::vector<float> values;
};

/// Random neurons of which about this share is active. `odd`: some values are infinite or NaN.
Listed some_listed(int64_t d_expert, double share, bool odd, std::mt19937& rng) {
  Listed listed;
  std::bernoulli_distribution is_active(share);
  for (int32_t j = 0; j < d_expert; ++j) {
    if (!is_active(rng)) continue;
    listed.ids.push_back(j);
    listed.values.push_back(normal_numbers(1, rng).front());
    if (odd && j % 7 == 3) listed.values.back() = j % 2 == 0 ? kNaN : std::numeric_limits<float>::infinity();
  }
  return listed;
}

/// The CPU's sum of one row, without the bias.
std::vector<float> sum_on_cpu(const DownColumns& down, const Listed& listed) {
  std::vector<float> sum(static_cast<size_t>(down.n_cols), 0.0f);
  if (listed.ids.empty()) return sum;
  const DownKernels& kernels = down_kernels(*fused_isa());
  const DownArgs args{.down = &down,
                      .ids = listed.ids.data(),
                      .values = listed.values.data(),
                      .n = static_cast<int>(listed.ids.size()),
                      .fresh = true,
                      .column_begin = 0,
                      .column_end = down.n_cols,
                      .sum = sum.data()};
  down.rows ? kernels.add_rows[static_cast<size_t>(down.rows.dtype)](args) : kernels.add_coded(args);
  return sum;
}

/// The packed down columns of all experts on the host, and of those with a slot on the device.
class PackedDowns {
 public:
  PackedDowns(DType type, int64_t d_model, int64_t d_expert, std::mt19937& rng) {
    for (int e = 0; e < kZeroExperts; ++e) downs_.push_back(random_matrix(type, d_model, d_expert, rng));
    std::vector<std::byte> slots(kZeroSlots * bytes());
    for (int e = 0; e < kZeroExperts; ++e) {
      host_.emplace_back(bytes());
      pack_columns(down(e), host_.back().data());
      const int32_t slot = kZeroSlotOf[static_cast<size_t>(e)];
      if (slot >= 0) std::ranges::copy(host_.back(), slots.begin() + slot * static_cast<ptrdiff_t>(bytes()));
    }
    there_ = std::make_unique<DeviceArray<std::byte>>(slots);
  }
  size_t bytes() const { return packed_columns_bytes(down(0)); }
  DownColumns on_host(int expert) const {
    return packed_columns(down(expert), host_[static_cast<size_t>(expert)].data());
  }
  DownColumns in_slot(int slot) const {
    return packed_columns(down(0), there_->data() + static_cast<size_t>(slot) * bytes());
  }

 private:
  const Matrix& down(int expert) const { return downs_[static_cast<size_t>(expert)].view; }

  std::vector<OwnedMatrix> downs_;
  std::vector<std::vector<std::byte>> host_;
  std::unique_ptr<DeviceArray<std::byte>> there_;
};

/// Groups of a choice on the device.
struct Grouped {
  Grouped(const HostChoice& choice, const TestStream& stream)
      : there(choice), groups(choice.n_tokens, choice.n_used, kZeroExperts, kZeroSlots) {
    cuda::group_pairs(there.view(), groups.view(), stream);
    host = groups.read(stream);
  }
  DeviceChoiceArrays there;
  DeviceGroups groups;
  HostGroups host;
};

TEST_CASE("CUDA adds up the down rows of active neurons as the CPU does", "[sanitizer]") {
  if (!fused_isa()) return;
  // Every form of down columns: rows of floats, and codes of 4 and 8 bits with each kind of scales and mins.
  const auto [type, d_model, d_expert] = GENERATE(table<DType, int64_t, int64_t>({
      {DType::kF32, 33, 70},
      {DType::kF16, 100, 300},
      {DType::kBF16, 64, 64},
      {DType::kQ4_0, 40, 320},
      {DType::kQ4_1, 160, 96},
      {DType::kQ3_K, 96, 256},
      {DType::kQ2_K, 31, 256},
      {DType::kQ4_K, 288, 512},
      {DType::kTQ2_0, 32, 256},
      {DType::kQ8_0, 129, 64},
      {DType::kQ5_1, 72, 128},
      {DType::kQ5_K, 64, 256},
      {DType::kQ6_K, 65, 256},
      {DType::kMXFP4, 64, 96},
      {DType::kNVFP4, 64, 128},
      {DType::kIQ2_S, 64, 256},
  }));
  INFO(dtype_info(type).name);
  const TestStream stream;
  std::mt19937 rng(81);
  const PackedDowns downs(type, d_model, d_expert, rng);
  const std::vector<float> biases = normal_numbers(kZeroExperts * d_model, rng);
  const DeviceArray<float> bias_there(biases);
  for (const int n_tokens : {0, 1, 6, 90}) {  // tiles of one, of a few and of many rows
    const HostChoice choice = choice_of(n_tokens, rng);
    const Grouped grouped(choice, stream);
    const auto n_pairs = static_cast<int64_t>(choice.n_pairs());
    for (const auto& [share, biased] : {std::pair(0.0, true), std::pair(0.15, false), std::pair(1.0, true)}) {
      std::vector<Listed> rows;
      std::vector<int32_t> ids(static_cast<size_t>(n_pairs * d_expert), -9), n;
      std::vector<float> values(ids.size(), kNaN);
      for (int64_t row = 0; row < n_pairs; ++row) {
        // The middle share also has rows without active neurons.
        rows.push_back(some_listed(d_expert, row % 5 == 4 && share < 1 ? 0 : share, row % 5 == 2, rng));
        std::ranges::copy(rows.back().ids, ids.begin() + row * d_expert);
        std::ranges::copy(rows.back().values, values.begin() + row * d_expert);
        n.push_back(static_cast<int32_t>(rows.back().ids.size()));
      }
      const DeviceArray<int32_t> ids_there(ids), n_there(n);
      const DeviceArray<float> values_there(values);
      for (const int first_slot : {0, 1}) {
        INFO(n_tokens << " tokens, share " << share << ", from slot " << first_slot);
        cuda::ExpertGroups groups = grouped.groups.view();
        groups.first_slot = first_slot;
        groups.end_slot = first_slot == 0 ? kZeroSlots : 3;
        std::vector<float> expected(static_cast<size_t>(n_pairs * d_model), -7.0f);
        for (const cuda::ExpertTile& tile : grouped.host.tiles) {
          if (tile.slot < groups.first_slot || tile.slot >= groups.end_slot) continue;
          for (int64_t row = tile.first_row; row < tile.first_row + tile.n_rows; ++row) {
            std::vector<float> sum = sum_on_cpu(downs.on_host(tile.expert), rows[static_cast<size_t>(row)]);
            const float* bias = biases.data() + tile.expert * d_model;
            for (size_t c = 0; c < sum.size() && biased; ++c) sum[c] += bias[c];
            std::ranges::copy(sum, expected.begin() + row * d_model);
          }
        }
        for_each_schedule([&, biased = biased] {
          const DeviceArray<float> out(std::vector<float>(expected.size(), -7.0f));
          cuda::add_active_rows(downs.in_slot(first_slot), downs.bytes(),
                                {ids_there.data(), values_there.data(), n_there.data()}, groups,
                                biased ? bias_there.data() : nullptr, out.data(), stream);
          REQUIRE(different(out.read(stream), expected) == 0);
        });
      }
    }
  }
}

/// The inputs of a call of list_active(): the products of gate and up, [n_pairs, d_expert].
struct Products {
  Products(int64_t n, float shift, std::mt19937& rng) : gate(normal_numbers(n, rng)), up(gate) {
    std::ranges::shuffle(up, rng);
    for (float& x : gate) x += shift;
    for (size_t i = 0; i < up.size(); i += 11) up[i] = 0.0f;  // such neurons pass, but are not active
    for (size_t i = 5; i < gate.size() && shift == 0.0f; i += 97) gate[i] = kNaN;
  }
  std::vector<float> gate, up;
};

/// Lists the active neurons in place, and compares them with the CPU's values. Returns the device's counts.
ExpertCounts check_lists(const FfnActivation& activation, bool gated, const Products& products,
                         const Grouped& grouped, int64_t d_expert, const TestStream& stream) {
  const VectorKernels& vector = vector_kernels(*fused_isa());
  const auto n_values = static_cast<int64_t>(products.gate.size());
  const std::vector<float> ones(products.gate.size(), 1.0f);
  std::vector<float> acts(products.gate.size()), results(products.gate.size());
  vector.gated_activation(activation, products.gate.data(), gated ? ones.data() : nullptr, n_values,
                          acts.data());
  vector.gated_activation(activation, products.gate.data(), gated ? products.up.data() : nullptr, n_values,
                          results.data());
  const DeviceArray<float> gates(products.gate), ups(products.up);
  const DeviceArray<int32_t> n_active(
      std::vector<int32_t>(static_cast<size_t>(grouped.groups.view().n_pairs), -9));
  const DeviceArray<cuda::DeviceCounts> counts(std::vector<cuda::DeviceCounts>(1));
  cuda::list_active(activation, gates.data(), gated ? ups.data() : nullptr, grouped.groups.view(), d_expert,
                    {reinterpret_cast<int32_t*>(ups.data()), gates.data(), n_active.data()}, counts.data(),
                    stream);
  const std::vector<float> values = gates.read(stream), ids = ups.read(stream);
  const std::vector<int32_t> n = n_active.read(stream);
  const size_t n_rows = grouped.host.token_of_row.size(), width = static_cast<size_t>(d_expert);
  ExpertCounts expected_counts, counted;
  for (size_t row = 0; row < n_rows; ++row) {
    Listed expected;
    for (size_t j = 0; j < width; ++j) {
      const float act = acts[row * width + j], value = results[row * width + j];
      expected_counts.passed += act != 0.0f ? 1 : 0;
      if (act == 0.0f || value == 0.0f) continue;
      expected.ids.push_back(static_cast<int32_t>(j));
      expected.values.push_back(value);
    }
    const size_t found = expected.ids.size();
    expected_counts.active += static_cast<int64_t>(found);
    REQUIRE(n[row] == static_cast<int32_t>(found));
    REQUIRE(std::memcmp(ids.data() + row * width, expected.ids.data(), found * sizeof(int32_t)) == 0);
    const float* begin = values.data() + row * width;
    REQUIRE(different({begin, begin + found}, expected.values) == 0);
  }
  for (size_t row = n_rows; row < n.size(); ++row) CHECK(n[row] == -9);
  counts.read(stream).front().add_to(counted);
  CHECK(counted.passed == expected_counts.passed);
  CHECK(counted.active == expected_counts.active);
  return counted;
}

TEST_CASE("CUDA lists the active neurons of resident pairs in the place of the inputs", "[sanitizer]") {
  if (!fused_isa()) return;
  const Activation kind = GENERATE(Activation::kRelu, Activation::kRelu2, Activation::kDRelu);
  const bool gated = GENERATE(true, false);
  if (!gated && kind == Activation::kDRelu) return;  // it has two inputs
  const FfnActivation activation{.kind = kind, .threshold = kind == Activation::kRelu ? 0.4f : 0.0f};
  const TestStream stream;
  std::mt19937 rng(82);
  for (const int64_t d_expert : {1, 70, 256, 700}) {
    for (const int n_tokens : {0, 1, 9}) {
      const HostChoice choice = choice_of(n_tokens, rng);
      const Grouped grouped(choice, stream);
      const auto n_rows = static_cast<int64_t>(grouped.host.token_of_row.size());
      for (const float shift : {-9.0f, 0.0f, 9.0f}) {  // no neuron passes, half of them do, all do
        INFO(d_expert << " neurons, " << n_tokens << " tokens, shift " << shift);
        const Products products(static_cast<int64_t>(choice.n_pairs()) * d_expert, shift, rng);
        for_each_schedule([&] {
          const ExpertCounts counts = check_lists(activation, gated, products, grouped, d_expert, stream);
          if (shift < 0.0f) CHECK(counts.passed == 0);
          if (shift > 0.0f) CHECK(counts.passed == n_rows * d_expert);
        });
      }
    }
  }
}

}  // namespace
}  // namespace hearth::test
