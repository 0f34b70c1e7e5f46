// Products with experts' matrices on CUDA have the bits that the CPU's products with each expert have, for
// every type, from slots in any order.
#include <array>
#include <numeric>

#include "kernels/cuda/ops/expert_types.h"
#include "kernels/quant/dequantize.h"
#include "tests/kernels/cuda/bits.h"
#include "tests/kernels/cuda/device_experts.h"
#include "tests/kernels/cuda/device_product.h"
#include "tests/kernels/matmul_run.h"
#include "tests/kernels/weight_rows.h"
#include "tests/support/catch.h"

namespace hearth::test {
namespace {

constexpr int kLayerExperts = 5, kSlots = 4, kUsed = 2;
constexpr std::array<int, kLayerExperts> kSlotOf = {2, 3, 0, -1, 1};

/// Matrices and biases of all experts, on the host and in slots.
class Matrices {
 public:
  Matrices(DType type, int64_t n_rows, int64_t n_cols, std::mt19937& rng)
      : n_rows_(n_rows), bias_(random_activations(kLayerExperts * n_rows, rng)), bias_there_(bias_) {
    for (int e = 0; e < kLayerExperts; ++e) weights_.push_back(random_matrix(type, n_rows, n_cols, rng));
    const size_t bytes = cuda::slot_row_bytes(type, n_cols) * static_cast<size_t>(n_rows);
    std::vector<std::byte> slots(kSlots * bytes);
    for (int e = 0; e < kLayerExperts; ++e) {
      const int slot = kSlotOf[static_cast<size_t>(e)];
      if (slot < 0) continue;
      std::byte* to = slots.data() + static_cast<size_t>(slot) * bytes;
      cuda::write_slot_rows(weights_[static_cast<size_t>(e)].view, 0, n_rows, to);
    }
    there_ = std::make_unique<DeviceArray<std::byte>>(slots);
  }

  DType type() const { return weights_.front().view.dtype; }
  int64_t n_rows() const { return n_rows_; }
  cuda::ExpertProduct product(float* out, bool biased) const {
    const Matrix& any = weights_.front().view;
    return {.weight = cuda::slot_rows(there_->data(), any.dtype, kSlots * n_rows_, any.n_cols),
            .n_rows = n_rows_,
            .bias = biased ? bias_there_.data() : nullptr,
            .out = out};
  }
  /// An expert's products with the rows of x, without bias, from the CPU or, where its bits differ, from
  /// CUDA's products of single tokens.
  std::vector<float> multiply_all(int expert, const std::vector<float>& x, const TestStream& stream) const {
    const Matrix& weight = weights_[static_cast<size_t>(expert)].view;
    const auto n = static_cast<int>(static_cast<int64_t>(x.size()) / weight.n_cols);
    const Isa best = supported_isas().front();
    if (uses_quantized_activations(weight.dtype) || best != Isa::kScalar) return multiply(best, weight, x, n);
    std::vector<float> out;
    for (int t = 0; t < n; ++t) {
      const std::vector<float> one(x.begin() + t * weight.n_cols, x.begin() + (t + 1) * weight.n_cols);
      const std::vector<float> row = device_product(stream, weight, one, 1);
      out.insert(out.end(), row.begin(), row.end());
    }
    return out;
  }
  float bias(int expert, int64_t row) const { return bias_[static_cast<size_t>(expert * n_rows_ + row)]; }

 private:
  int64_t n_rows_;
  std::vector<float> bias_;
  DeviceArray<float> bias_there_;
  std::vector<OwnedMatrix> weights_;
  std::unique_ptr<DeviceArray<std::byte>> there_;
};

/// Tokens with two experts each; expert 1 has most of them.
HostChoice skewed_choice(int n_tokens, std::mt19937& rng) {
  HostChoice choice{n_tokens, kUsed, {}, {}, {}};
  std::vector<int32_t> all(kLayerExperts);
  std::iota(all.begin(), all.end(), 0);
  for (int t = 0; t < n_tokens; ++t) {
    std::shuffle(all.begin(), all.end(), rng);
    if (t % 3 != 0) std::iter_swap(std::ranges::find(all, 1), all.begin() + t % kUsed);
    choice.experts.insert(choice.experts.end(), all.begin(), all.begin() + kUsed);
  }
  for (const int32_t e : choice.experts) choice.slots.push_back(kSlotOf[static_cast<size_t>(e)]);
  choice.weights.resize(choice.experts.size());
  return choice;
}

/// A step of tokens, grouped, with inputs by token or by row.
class ExpertStep {
 public:
  ExpertStep(int n_tokens, int64_t n_cols, bool by_pair, const TestStream& stream, std::mt19937& rng)
      : stream_(stream),
        choice_(skewed_choice(n_tokens, rng)),
        there_(choice_),
        groups_(n_tokens, kUsed, kLayerExperts, kSlots),
        by_pair_(by_pair),
        x_(random_activations((by_pair ? kUsed : 1) * n_tokens * n_cols, rng)),
        activations_(x_, static_cast<int>(static_cast<int64_t>(x_.size()) / std::max<int64_t>(1, n_cols)),
                     n_cols / 32 * 32, stream) {
    cuda::group_pairs(there_.view(), groups_.view(), stream);
    found_ = groups_.read(stream);
  }

  int tile_rows() const { return groups_.view().tile_rows; }
  std::vector<float> untouched(const Matrices& weights) const {
    return std::vector<float>(choice_.n_pairs() * static_cast<size_t>(weights.n_rows()), -7.0f);
  }
  void multiply(std::span<const cuda::ExpertProduct> products) const {
    cuda::expert_products(products, {activations_.x(), activations_.quantized(), by_pair_}, groups_.view(),
                          stream_);
  }
  std::vector<float> on_device(const Matrices& weights, bool biased) const {
    const DeviceArray<float> out(untouched(weights));
    multiply(std::array{weights.product(out.data(), biased)});
    return out.read(stream_);
  }
  std::vector<float> expected(const Matrices& weights, bool biased) const {
    std::vector<float> out = untouched(weights);
    for (int e = 0; e < kLayerExperts; ++e) {
      const std::vector<float> all = weights.multiply_all(e, x_, stream_);
      for (size_t pair = 0; pair < choice_.n_pairs(); ++pair) {
        if (choice_.experts[pair] != e || found_.row_of_pair[pair] < 0) continue;
        const int64_t row = found_.row_of_pair[pair];
        const int64_t input = by_pair_ ? row : static_cast<int64_t>(pair) / kUsed;
        for (int64_t r = 0; r < weights.n_rows(); ++r) {
          const float value = all[static_cast<size_t>(input * weights.n_rows() + r)];
          out[static_cast<size_t>(row * weights.n_rows() + r)] = biased ? value + weights.bias(e, r) : value;
        }
      }
    }
    return out;
  }

 private:
  const TestStream& stream_;
  HostChoice choice_;
  DeviceChoiceArrays there_;
  DeviceGroups groups_;
  bool by_pair_;
  std::vector<float> x_;
  DeviceActivations activations_;
  HostGroups found_;
};

int64_t some_columns(DType type) {
  const int64_t block = dtype_info(type).block_elems;
  return block == 1 ? 101 : block == 32 ? 352 : 512;
}

}  // namespace

TEST_CASE("CUDA multiplies with experts as the CPU does, for every type and number of tokens") {
  const TestStream stream;
  for (const DType type : all_types()) {
    std::mt19937 rng(61);
    const Matrices weights(type, 37, some_columns(type), rng);
    for (const int n_tokens : {0, 1, 3, 17, 70, 130}) {
      for (const bool by_pair : {false, true}) {
        const ExpertStep step(n_tokens, some_columns(type), by_pair, stream, rng);
        INFO(dtype_info(type).name << ", " << n_tokens << " tokens, tiles of " << step.tile_rows()
                                   << (by_pair ? ", by pair" : ", by token"));
        REQUIRE(different(step.on_device(weights, by_pair), step.expected(weights, by_pair)) == 0);
      }
    }
  }
}

TEST_CASE("CUDA multiplies with experts as the CPU does, at every width and number of rows") {
  const TestStream stream;
  for (const DType type : {DType::kF32, DType::kBF16, DType::kQ4_0, DType::kQ4_K, DType::kQ6_K, DType::kMXFP4,
                           DType::kNVFP4, DType::kIQ3_S, DType::kTQ1_0}) {
    const int64_t block = dtype_info(type).block_elems;
    const std::vector<int64_t> widths = block == 1    ? std::vector<int64_t>{1, 16, 33}
                                        : block == 32 ? std::vector<int64_t>{32, 96, 480, 512, 544, 1088}
                                        : block == 64 ? std::vector<int64_t>{64, 192, 1088}
                                                      : std::vector<int64_t>{256, 768};
    for (const int64_t n_cols : widths) {
      for (const int64_t n_rows : {1, 8, 33, 130}) {
        std::mt19937 rng(62);
        const Matrices weights(type, n_rows, n_cols, rng);
        for (const int n_tokens : {1, 2, 20}) {
          const ExpertStep step(n_tokens, n_cols, false, stream, rng);
          INFO(dtype_info(type).name << ", " << n_rows << "x" << n_cols << ", " << n_tokens << " tokens");
          REQUIRE(different(step.on_device(weights, false), step.expected(weights, false)) == 0);
        }
      }
    }
  }
}

TEST_CASE("CUDA multiplies with experts in any order of threads", "[sanitizer]") {
  const TestStream stream;
  for (const DType type :
       {DType::kF16, DType::kQ4_0, DType::kQ4_K, DType::kQ6_K, DType::kMXFP4, DType::kNVFP4}) {
    std::mt19937 rng(63);
    const Matrices weights(type, 37, 512, rng);
    for (const int n_tokens : {1, 5, 17, 40, 110}) {
      const ExpertStep step(n_tokens, 512, false, stream, rng);
      INFO(dtype_info(type).name << ", " << n_tokens << " tokens");
      const std::vector<float> expected = step.expected(weights, true);
      for_each_schedule([&] { REQUIRE(different(step.on_device(weights, true), expected) == 0); });
    }
  }
}

TEST_CASE("CUDA multiplies with two matrices of experts in one launch if they are alike") {
  const TestStream stream;
  std::mt19937 rng(64);
  for (const auto& [first, second, launches] :
       {std::tuple(DType::kQ4_0, DType::kQ4_0, 1), std::tuple(DType::kMXFP4, DType::kMXFP4, 1),
        std::tuple(DType::kF16, DType::kF16, 1), std::tuple(DType::kQ4_K, DType::kQ6_K, 2)}) {
    const Matrices gate(first, 50, 512, rng), up(second, 19, 512, rng);
    for (const int n_tokens : {1, 3, 30}) {
      const ExpertStep step(n_tokens, 512, false, stream, rng);
      INFO(dtype_info(first).name << " and " << dtype_info(second).name << ", " << n_tokens << " tokens");
      const DeviceArray<float> gates(step.untouched(gate)), ups(step.untouched(up));
#ifdef HEARTH_CUDA_EMULATED
      cudaemu::reset_stats();
#endif
      step.multiply(std::array{gate.product(gates.data(), true), up.product(ups.data(), false)});
      REQUIRE(different(gates.read(stream), step.expected(gate, true)) == 0);
      REQUIRE(different(ups.read(stream), step.expected(up, false)) == 0);
#ifdef HEARTH_CUDA_EMULATED
      CHECK(cudaemu::stats().launches == static_cast<uint64_t>(launches));
#endif
    }
  }
}

TEST_CASE("slots have rows that are as in the file, or MXFP4's in runs of 16 blocks") {
  std::mt19937 rng(65);
  for (const int64_t n_cols : {32, 480, 512, 544, 2880}) {
    const OwnedMatrix from = random_matrix(DType::kMXFP4, 3, n_cols, rng);
    const int64_t n_blocks = n_cols / 32;
    const size_t bytes = cuda::slot_row_bytes(DType::kMXFP4, n_cols);
    CHECK(bytes % 16 == 0);
    CHECK(bytes - row_bytes(DType::kMXFP4, n_cols) < 16);
    std::vector<std::byte> to(2 * bytes);
    cuda::write_slot_rows(from.view, 1, 3, to.data());
    for (int64_t row = 0; row < 2; ++row) {
      const std::byte* slot = to.data() + static_cast<size_t>(row) * bytes;
      for (int64_t b = 0; b < n_blocks; ++b) {
        const std::byte* block = from.view.row(row + 1) + 17 * b;
        const std::byte* run = slot + b / 16 * 272;
        REQUIRE(run[b % 16] == block[0]);
        REQUIRE(std::equal(block + 1, block + 17, run + 16 + b % 16 * 16));
      }
    }
  }
  const OwnedMatrix plain = random_matrix(DType::kQ4_0, 3, 64, rng);
  std::vector<std::byte> to(plain.bytes.size());
  cuda::write_slot_rows(plain.view, 0, 3, to.data());
  CHECK(to == plain.bytes);
}

}  // namespace hearth::test
