// Integer sums over neurons on the device: they equal the definition's integers and the CPU's, however the
// neurons are shared.
#include <cmath>
#include <cstring>
#include <limits>

#include "kernels/cpu/isa/down_kernels.h"
#include "kernels/cuda/ops/ops.h"
#include "kernels/quant/dequantize.h"
#include "tests/kernels/cuda/device_neurons.h"
#include "tests/kernels/sums_reference.h"
#include "tests/support/catch.h"

namespace hearth::test {
namespace {

/// A down projection's copy on the device.
struct DownOnDevice {
  explicit DownOnDevice(const DownCase& down)
      : rows(down.matrix.bytes), codes(down.codes), scales(down.scales), view(down.down) {
    if (view.rows) {
      view.rows.data = rows.data();
      return;
    }
    const std::byte* begin = down.scales.data();
    if (view.coded.mins != nullptr) view.coded.mins = scales.data() + (view.coded.mins - begin);
    view.coded.codes = codes.data();
    view.coded.scales = scales.data();
  }
  DeviceArray<std::byte> rows, codes, scales;
  DownColumns view;
};

/// Values [n_tokens, max] by list index, from values [n_tokens, n_neurons] by number.
std::vector<float> by_place(const std::vector<float>& values, int64_t n_neurons, int n_tokens,
                            const std::vector<int32_t>& ids, int64_t max) {
  std::vector<float> placed(static_cast<size_t>(n_tokens * max), std::numeric_limits<float>::quiet_NaN());
  for (int t = 0; t < n_tokens; ++t) {
    for (size_t i = 0; i < ids.size(); ++i) {
      placed[static_cast<size_t>(t * max) + i] = values[static_cast<size_t>(t * n_neurons + ids[i])];
    }
  }
  return placed;
}

/// Sums a down projection's neurons on the device.
class DeviceSums {
 public:
  DeviceSums(const DownCase& down, int n_tokens)
      : down_(down),
        n_tokens_(n_tokens),
        n_neurons_(down.down.n_neurons),
        sums_(std::vector<int64_t>(static_cast<size_t>(n_tokens * down.down.n_cols), 0)),
        poison_(std::vector<int32_t>(static_cast<size_t>(n_tokens), 0)) {}
  /// Adds the listed neurons; values [n_tokens, n_neurons] by number.
  void add(const std::vector<int32_t>& ids, const std::vector<float>& values) {
    const ListOnDevice list(ids, n_neurons_);
    const DeviceArray<float> placed(by_place(values, n_neurons_, n_tokens_, ids, n_neurons_));
    cuda::add_down(down_.view, list.view(), placed.data(), n_tokens_, view(), stream_);
    stream_.wait();
  }
  Sums read() const {
    Sums found(0, 0);
    found.sums = sums_.read(stream_);
    found.poison = poison_.read(stream_);
    for (int32_t& flag : found.poison) flag = flag != 0 ? 1 : 0;
    return found;
  }

 private:
  NeuronSums view() const { return {sums_.data(), poison_.data()}; }
  TestStream stream_;
  DownOnDevice down_;
  int n_tokens_;
  int64_t n_neurons_;
  DeviceArray<int64_t> sums_;
  DeviceArray<int32_t> poison_;
};

std::vector<int32_t> random_ids(int64_t n, double share, std::mt19937& rng) {
  std::bernoulli_distribution listed(share);
  std::vector<int32_t> ids;
  for (int32_t j = 0; j < n; ++j) {
    if (listed(rng)) ids.push_back(j);
  }
  return ids;
}

/// Every token wants a random part of the neurons; the values of the others are zero.
std::vector<float> wanted_values(const std::vector<float>& values, double share, std::mt19937& rng) {
  std::bernoulli_distribution wanted(share);
  std::vector<float> own = values;
  for (float& value : own) value = wanted(rng) ? value : 0.0f;
  return own;
}

void check_sums(const DownCase& down, const std::vector<int32_t>& ids, const std::vector<float>& values,
                int n_tokens) {
  Sums expected(n_tokens, down.down.n_cols);
  reference_sums(down, ids, values, n_tokens, expected);
  DeviceSums sums(down, n_tokens);
  sums.add(ids, values);
  REQUIRE(sums.read() == expected);
}

/// Calls `use` with a down projection of every type, as rows and as codes.
template <class Use>
void for_each_down(int64_t n_neurons, std::mt19937& rng, Use&& use) {
  for (DType type : device_types()) {
    INFO("rows of " << dtype_info(type).name);
    use(down_rows(type, n_neurons, some_columns(type), 4, rng));
  }
  for (DType type : quantized_device_types()) {
    INFO("coded columns of " << dtype_info(type).name);
    use(down_coded(type, n_neurons, 83, 2, rng));
  }
}

}  // namespace

TEST_CASE("CUDA: sums of every type are the definition's integers") {
  std::mt19937 rng(1);
  for_each_down(70, rng, [&](const DownCase& down) {
    const int64_t n = down.down.n_neurons;
    for (int n_tokens : {1, 3}) {
      INFO(n_tokens << " tokens");
      const std::vector<float> values = random_activations(n * n_tokens, rng);
      check_sums(down, random_ids(n, 0.4, rng), wanted_values(values, 0.7, rng), n_tokens);
      check_sums(down, random_ids(n, 0.4, rng), strange_values(n * n_tokens, rng), n_tokens);
    }
  });
}

TEST_CASE("CUDA: sums are right for lists of any length and any number of tokens") {
  std::mt19937 rng(2);
  for (int64_t n : {1, 63, 333, 700}) {
    const DownCase down = down_rows(DType::kQ4_0, n, 320, 0, rng);
    for (int n_tokens : {1, 2, 4, 5, 9, 16}) {
      for (double share : {0.0, 0.01, 0.3, 1.0}) {
        INFO(n << " neurons, " << n_tokens << " tokens, " << share);
        const std::vector<float> values = random_activations(n * n_tokens, rng);
        check_sums(down, random_ids(n, share, rng), wanted_values(values, 0.5, rng), n_tokens);
      }
    }
  }
}

TEST_CASE("CUDA and CPU: shares of the neurons, wherever they are summed, add up to the same integers") {
  std::mt19937 rng(3);
  const int n_tokens = 3;
  for_each_down(200, rng, [&](const DownCase& down) {
    const int64_t n = down.down.n_neurons, n_cols = down.down.n_cols;
    const std::vector<int32_t> ids = random_ids(n, 0.5, rng);
    const std::vector<float> values = strange_values(n * n_tokens, rng);
    Sums expected(n_tokens, n_cols);
    reference_sums(down, ids, values, n_tokens, expected);
    for (double on_device : {0.0, 0.2, 0.5, 1.0}) {
      std::bernoulli_distribution hot(on_device);
      std::vector<int32_t> device_ids, host_ids;
      for (int32_t id : ids) (hot(rng) ? device_ids : host_ids).push_back(id);
      DeviceSums sums(down, n_tokens);
      sums.add(device_ids, values);
      Sums found = sums.read();
      const Isa isa = supported_isas()[rng() % supported_isas().size()];
      const DownSumsKernels& kernels = down_sums_kernels(isa);
      for (int t = 0; t < n_tokens; ++t) {
        std::vector<float> own, parts(static_cast<size_t>(3 * n_cols));
        for (int32_t id : host_ids) own.push_back(values[static_cast<size_t>(t * n + id)]);
        const DownSumsArgs args{.down = &down.down,
                                .ids = host_ids.data(),
                                .values = own.data(),
                                .n = static_cast<int>(host_ids.size()),
                                .column_begin = 0,
                                .column_end = n_cols,
                                .sums = found.sums.data() + t * n_cols,
                                .parts = parts.data()};
        if (down.down.rows) {
          kernels.add_rows[static_cast<size_t>(down.down.rows.dtype)](args);
        } else {
          kernels.add_coded(args);
        }
      }
      INFO("a share of " << on_device << " on the device, the rest by " << isa_name(isa));
      REQUIRE(found == expected);
    }
  });
}

TEST_CASE("CUDA: a NaN value poisons its token, a NaN weight does not") {
  std::mt19937 rng(4);
  const float nan = std::numeric_limits<float>::quiet_NaN(), inf = std::numeric_limits<float>::infinity();
  DownCase down = down_rows(DType::kF32, 40, 300, 0, rng);
  down.weights[5 * 300 + 7] = nan;
  down.weights[6 * 300 + 299] = -inf;
  std::memcpy(down.matrix.bytes.data(), down.weights.data(), down.matrix.bytes.size());
  const int n_tokens = 5;
  std::vector<float> values = random_activations(40 * n_tokens, rng);
  values[0 * 40 + 5] = 0.0f;
  values[1 * 40 + 5] = 1.0f;
  values[2 * 40 + 9] = nan;
  values[3 * 40 + 9] = -inf;
  values[4 * 40 + 10] = nan;  // not listed
  std::vector<int32_t> ids;
  for (int32_t j = 0; j < 40; ++j) {
    if (j != 10) ids.push_back(j);
  }
  Sums expected(n_tokens, 300);
  reference_sums(down, ids, values, n_tokens, expected);
  CHECK(expected.poison == std::vector<int32_t>{0, 0, 1, 1, 0});
  DeviceSums sums(down, n_tokens);
  sums.add(ids, values);
  const Sums found = sums.read();
  CHECK(found.poison == expected.poison);
  for (size_t t : {0, 1, 4}) {
    for (size_t c = 0; c < 300; ++c) REQUIRE(found.sums[t * 300 + c] == expected.sums[t * 300 + c]);
  }
  CHECK(found.sums[1 * 300 + 7] > int64_t{1} << 55);
}

TEST_CASE("CUDA: sums are right for terms and codes at their bounds") {
  std::mt19937 rng(6);
  const int64_t n = 600;
  for (const DType type : {DType::kQ8_0, DType::kQ4_0, DType::kQ4_1}) {
    DownCase down = down_rows(type, n, 256, 0, rng);
    const auto block_bytes = static_cast<size_t>(dtype_info(type).block_bytes);
    const uint16_t one = 0x3c00;
    for (size_t at = 0; at < down.matrix.bytes.size(); at += block_bytes) {
      std::memset(down.matrix.bytes.data() + at, at / block_bytes % 2 == 0 ? 0x80 : 0x7f, block_bytes);
      std::memcpy(down.matrix.bytes.data() + at, &one, 2);
      if (type == DType::kQ4_1) std::memcpy(down.matrix.bytes.data() + at + 2, &one, 2);
    }
    for (int64_t j = 0; j < n; ++j)
      dequantize_row(type, down.down.rows.row(j), 256, down.weights.data() + j * 256);
    const float limit = std::ldexp(1.0f, type == DType::kQ8_0 ? -5 : type == DType::kQ4_0 ? -1 : -2);
    for (const float value : {std::nextafter(limit, 0.0f), -std::nextafter(limit, 0.0f), limit}) {
      for (int n_tokens : {1, 2, 9}) {
        check_sums(down, random_ids(n, 1.0, rng),
                   std::vector<float>(static_cast<size_t>(n * n_tokens), value), n_tokens);
      }
    }
  }
}

TEST_CASE("CUDA: sums are right for many contributions at the edge of the two-part range") {
  std::mt19937 rng(5);
  const int64_t n = 600;
  DownCase down = down_rows(DType::kF32, n, 256, 0, rng);
  const float edge = std::nextafter(256.0f, 0.0f);
  for (size_t i = 0; i < down.weights.size(); ++i) {
    const float sizes[] = {edge, -edge, 256.0f, -256.0f, 0x1p-15f, 0x1.fffffep-15f, 0x1p-37f, 0x1.8p-36f};
    down.weights[i] = sizes[i % 256 / 32] * (i % 3 == 0 ? 1.0f : 0x1.000002p0f);
  }
  std::memcpy(down.matrix.bytes.data(), down.weights.data(), down.matrix.bytes.size());
  const std::vector<float> ones(n * 2, 1.0f);
  for (int n_tokens : {1, 2}) check_sums(down, random_ids(n, 1.0, rng), ones, n_tokens);
  const std::vector<float> many(n * 9, 1.0f);  // chunks of 256
  check_sums(down, random_ids(n, 1.0, rng), many, 9);
}

}  // namespace hearth::test
