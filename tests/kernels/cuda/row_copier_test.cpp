// Neurons moved to device rows: the rows get the host's bytes, for every type and in every way, after the
// work that may still read them.
#include "kernels/cuda/hybrid/cuda_row_copier.h"

#include <array>
#include <cstring>
#include <future>
#include <memory>

#include "kernels/quant/coded_columns.h"
#include "tests/kernels/cuda/device_array.h"
#include "tests/kernels/cuda/device_product.h"
#include "tests/kernels/matmul_run.h"
#include "tests/kernels/neuron_layer.h"
#include "tests/support/catch.h"
#include "tests/support/cudaemu/control.h"

namespace hearth::test {
namespace {

/// Host memory that is pinned while it lives.
class Pinned {
 public:
  explicit Pinned(const std::vector<std::byte>& bytes) : at_(const_cast<std::byte*>(bytes.data())) {
    if (!bytes.empty())
      cuda::check(cudaHostRegister(at_, bytes.size(), cudaHostRegisterMapped), "pinning");
    else
      at_ = nullptr;
  }
  ~Pinned() {
    if (at_ != nullptr) cudaHostUnregister(at_);
  }
  Pinned(const Pinned&) = delete;
  Pinned& operator=(const Pinned&) = delete;

 private:
  std::byte* at_;
};

struct Case {
  LayerShape shape;
  bool coded = false, all_gates = false, pinned = true;
};

/// A layer on the host, with room for some of its neurons on the device.
class TestLayer {
 public:
  TestLayer(const Case& what, int number, int64_t n_device_rows, std::mt19937& rng)
      : what_(what), host_(random_layer(what.shape, rng)), n_rows_(n_device_rows) {
    layer_.layer = number;
    layer_.host = host_.ffn;
    layer_.all_gates = what.all_gates;
    layer_.host_pinned = what.pinned;
    layer_.n_device_rows = n_device_rows;
    if (what.coded) turn(rng);
    FfnNeurons& device = layer_.device;
    device.gate = room(layer_.host.gate);
    device.up = room(layer_.host.up);
    device.down = layer_.host.down;
    if (what.coded) {
      const auto n = column_codes_bytes(what.shape.down_type, what.shape.d_model);
      device.down.coded.codes = room(n);
      device.down.coded.stride = n;
    } else {
      device.down.rows = room(layer_.host.down.rows);
    }
    if (!what.pinned) return;
    for (const auto* bytes : {&host_.gate.bytes, &host_.up.bytes, &host_.down.bytes, &host_.bundles, &codes_})
      pins_.push_back(std::make_unique<Pinned>(*bytes));
  }

  const HybridLayer& get() const { return layer_; }
  int64_t n_neurons() const { return what_.shape.d_ff; }
  int64_t n_device_rows() const { return n_rows_; }

  /// Returns whether the device rows hold these neurons, and the rows marked -1 their initial contents.
  bool holds(const std::vector<int32_t>& neurons) const {
    const FfnNeurons &host = layer_.host, &device = layer_.device;
    const Matrix no_gate{};
    bool same = rows_are(what_.all_gates ? no_gate : host.gate, device.gate, neurons);
    if (host.up) same = same && rows_are(host.up, device.up, neurons);
    if (!what_.coded) return same && rows_are(host.down.rows, device.down.rows, neurons);
    const CodedColumns &from = host.down.coded, &to = device.down.coded;
    return same && bytes_are(from.codes, from.stride, to.codes, to.stride, neurons);
  }

 private:
  void turn(std::mt19937& rng) {
    const LayerShape& shape = what_.shape;
    plain_ = random_matrix(shape.down_type, shape.d_model, shape.d_ff, rng);
    const size_t stride = column_codes_bytes(shape.down_type, shape.d_model) + 12;
    codes_.resize(stride * static_cast<size_t>(shape.d_ff));
    scales_.resize(column_scales_bytes(plain_.view));
    layer_.host.down = turn_down_projection(plain_.view, nullptr, codes_.data(), stride, scales_.data());
  }
  const std::byte* room(size_t row_bytes) {
    memory_.push_back(std::make_unique<DeviceArray<std::byte>>(row_bytes * static_cast<size_t>(n_rows_)));
    cuda::check(cudaMemset(memory_.back()->data(), 0x5a, memory_.back()->size()), "filling");
    cuda::check(cudaDeviceSynchronize(), "filling");
    return memory_.back()->data();
  }
  Matrix room(const Matrix& host) {
    if (!host) return {};
    return {room(row_bytes(host.dtype, host.n_cols)), host.dtype, n_rows_, host.n_cols};
  }
  bool rows_are(const Matrix& host, const Matrix& device, const std::vector<int32_t>& neurons) const {
    return bytes_are(host.data, host ? host.stride_bytes() : 0, device.data, device.stride_bytes(), neurons);
  }
  /// host null: the device row must be untouched.
  bool bytes_are(const std::byte* host, size_t host_stride, const std::byte* device, size_t stride,
                 const std::vector<int32_t>& neurons) const {
    std::vector<std::byte> found(stride * neurons.size()), expected(found.size(), std::byte{0x5a});
    cuda::check(cudaMemcpy(found.data(), device, found.size(), cudaMemcpyDeviceToHost), "reading");
    for (size_t i = 0; i < neurons.size() && host != nullptr; ++i) {
      if (neurons[i] < 0) continue;
      std::memcpy(expected.data() + i * stride, host + static_cast<size_t>(neurons[i]) * host_stride, stride);
    }
    return found == expected;
  }

  Case what_;
  Layer host_;
  OwnedMatrix plain_;
  std::vector<std::byte> codes_, scales_;
  int64_t n_rows_;
  HybridLayer layer_;
  std::vector<std::unique_ptr<DeviceArray<std::byte>>> memory_;
  std::vector<std::unique_ptr<Pinned>> pins_;
};

/// Moves of some neurons to some device rows, both ascending and sometimes adjacent.
std::vector<RowChange> some_moves(const TestLayer& layer, double share, std::mt19937& rng) {
  std::vector<RowChange> moves;
  std::bernoulli_distribution taken(share);
  int32_t device_row = 0;
  for (int32_t neuron = 0; neuron < layer.n_neurons() && device_row < layer.n_device_rows(); ++neuron) {
    if (!taken(rng)) continue;
    moves.push_back({neuron, device_row});
    device_row += rng() % 4 == 0 ? 2 : 1;
  }
  return moves;
}

void check_moves(const Case& what, CopyWay way, std::mt19937& rng) {
  INFO("type " << static_cast<int>(what.shape.type) << ", down " << static_cast<int>(what.shape.down_type)
               << ", coded " << what.coded << ", gated " << what.shape.gated << ", bundled "
               << what.shape.bundled << ", all gates " << what.all_gates << ", pinned " << what.pinned
               << ", way " << static_cast<int>(way));
  TestLayer layer(what, 3, 40, rng);
  // Staging memory for a few neurons only, so that it is reused.
  const auto copier = cuda::make_row_copier(std::array{&layer.get()}, {.way = way, .staging_bytes = 4000});
  std::vector<int32_t> neurons(40, -1);
  cudaemu::reset_stats();
  for (const double share : {0.02, 0.9, 0.3}) {
    const std::vector<RowChange> moves = some_moves(layer, share, rng);
    copier->start(3, moves);
    for (const RowChange& move : moves) neurons[static_cast<size_t>(move.device_row)] = move.neuron;
  }
  const RowCopier::Copied copied = copier->wait();
  CHECK(copied.seconds > 0);
  CHECK(copier->wait().bytes == 0);
  CHECK(cudaemu::stats().pageable_async == 0);
  CHECK(cudaemu::stats().default_stream == 0);
  REQUIRE(layer.holds(neurons));
}

TEST_CASE("neurons of every type arrive in their device rows bit for bit, by every copy method") {
  const CopyWay way = GENERATE(CopyWay::kGather, CopyWay::kDma);
  const bool pinned = GENERATE(true, false);
  std::mt19937 rng(7);
  for (const DType type : device_types()) {
    LayerShape shape{.d_model = 256, .d_ff = 64, .type = type, .down_type = type, .bundled = true};
    check_moves({.shape = shape, .pinned = pinned}, way, rng);
    shape.d_ff = 256;
    if (type != DType::kF32 && type != DType::kF16 && type != DType::kBF16) {
      shape.bundled = false;
      check_moves({.shape = shape, .coded = true, .pinned = pinned}, way, rng);
    }
  }
  for (const bool bundled : {true, false}) {
    for (const bool gated : {true, false}) {
      const LayerShape shape{.d_model = 96, .d_ff = 80, .gated = gated, .bundled = bundled};
      check_moves({.shape = shape, .pinned = pinned}, way, rng);
      check_moves({.shape = shape, .all_gates = true, .pinned = pinned}, way, rng);
    }
  }
}

TEST_CASE("several layers have one copier, pinned or not") {
  const CopyWay way = GENERATE(CopyWay::kGather, CopyWay::kDma);
  std::mt19937 rng(8);
  const LayerShape small{.bundled = true}, large{.d_model = 128, .d_ff = 64, .bundled = true};
  TestLayer a({.shape = small}, 0, 8, rng), b({.shape = large, .pinned = false}, 5, 9, rng);
  const HybridLayer* const layers[] = {&a.get(), &b.get()};
  const auto copier = cuda::make_row_copier(layers, {.way = way, .staging_bytes = 0});
  copier->start(5, std::vector<RowChange>{{7, 8}, {60, 0}});
  copier->start(0, std::vector<RowChange>{{95, 7}});
  copier->start(0, {});
  CHECK(copier->wait().bytes > 0);
  CHECK(a.holds({-1, -1, -1, -1, -1, -1, -1, 95}));
  CHECK(b.holds({60, -1, -1, -1, -1, -1, -1, -1, 7}));
}

TEST_CASE("a device row is written once the work enqueued before its gate is done, beside other work") {
  const CopyWay way = GENERATE(CopyWay::kGather, CopyWay::kDma);
  std::mt19937 rng(9);
  TestLayer gated({.shape = {.bundled = true}}, 0, 8, rng), free({.shape = {.bundled = true}}, 1, 8, rng);
  const HybridLayer* const layers[] = {&gated.get(), &free.get()};
  const auto copier = cuda::make_row_copier(layers, {.way = way});
  const TestStream compute;
  std::promise<void> go_on;
  std::shared_future<void> may_go_on = go_on.get_future().share();
  cuda::check(cudaLaunchHostFunc(
                  compute, [](void* waits_for) { static_cast<std::shared_future<void>*>(waits_for)->wait(); },
                  &may_go_on),
              "enqueuing");
  // The free layer's neurons move while the compute stream is busy, the gated layer's do not.
  copier->start(1, std::vector<RowChange>{{4, 4}});
  copier->wait();
  CHECK(free.holds({-1, -1, -1, -1, 4, -1, -1, -1}));
  copier->gate(0, static_cast<cudaStream_t>(compute));
  copier->start(0, std::vector<RowChange>{{4, 4}});
  CHECK(gated.holds({-1, -1, -1, -1, -1, -1, -1, -1}));
  go_on.set_value();
  copier->wait();
  CHECK(gated.holds({-1, -1, -1, -1, 4, -1, -1, -1}));
}

// A row of 11 blocks has 18 * 11 bytes, so adjacent rows share words and 32-byte sectors: see load_words.cuh.
TEST_CASE("products of device rows stay right while neighboring rows are written") {
  const CopyWay way = GENERATE(CopyWay::kGather, CopyWay::kDma);
  const int n_tokens = GENERATE(1, 18);  // the kernels for few tokens and for many
  constexpr int64_t kNeurons = 256, kDeviceRows = 128, kCols = 32 * 11;
  const int n_rounds = cudaemu::is_emulated() ? 25 : 1500;
  std::mt19937 rng(11);
  TestLayer layer({.shape = {.d_model = kCols, .d_ff = kNeurons, .bundled = true}}, 0, kDeviceRows, rng);
  REQUIRE(layer.get().device.gate.stride_bytes() == 18 * 11);
  const auto copier = cuda::make_row_copier(std::array{&layer.get()}, {.way = way});
  const TestStream compute;

  // Each neuron's product. Even device rows keep their neurons, odd ones get others all the time.
  const std::vector<float> x = random_activations(n_tokens * kCols, rng);
  const std::vector<float> products = multiply(supported_isas().front(), layer.get().host.gate, x, n_tokens);
  std::vector<int32_t> neuron_of(kDeviceRows), rows[2];
  for (int32_t r = 0; r < kDeviceRows; ++r) rows[r % 2].push_back(r);
  const auto bring = [&](const std::vector<int32_t>& to) {
    std::vector<RowChange> moves;
    for (const int32_t row : to) {
      const auto neuron = static_cast<int32_t>(rng() % kNeurons);
      neuron_of[static_cast<size_t>(row)] = neuron;
      moves.push_back({neuron, row});
    }
    copier->start(0, moves);
  };
  const DeviceActivations activations(x, n_tokens, kCols, compute);
  const DeviceRows lists[] = {{rows[0], kDeviceRows}, {rows[1], kDeviceRows}};
  const DeviceArray<float> out[] = {DeviceArray<float>(static_cast<size_t>(n_tokens * kDeviceRows)),
                                    DeviceArray<float>(static_cast<size_t>(n_tokens * kDeviceRows))};
  const auto multiply_rows = [&](int odd) {
    cuda::matmul({.weight = layer.get().device.gate,
                  .rows = lists[odd].list(),
                  .x = activations.x(),
                  .quantized = activations.quantized(),
                  .n_tokens = n_tokens,
                  .out = out[odd].data(),
                  .out_stride = kDeviceRows},
                 compute);
  };
  const auto wrong = [&](int odd) {
    const std::vector<float> found = out[odd].read(compute);
    int n = 0;
    for (int t = 0; t < n_tokens; ++t) {
      for (size_t i = 0; i < rows[odd].size(); ++i) {
        const auto neuron = neuron_of[static_cast<size_t>(rows[odd][i])];
        n += std::memcmp(&found[static_cast<size_t>(t * kDeviceRows) + i],
                         &products[static_cast<size_t>(t * kNeurons + neuron)], sizeof(float)) != 0;
      }
    }
    return n;
  };

  bring(rows[0]);
  copier->wait();
  int n_wrong[2] = {};
  for (int round = 0; round < n_rounds; ++round) {
    multiply_rows(0);  // begins before the odd rows are written, or after
    bring(rows[1]);
    for (int i = 0; i < 3; ++i) multiply_rows(0);
    copier->wait();
    multiply_rows(1);  // launched by a host that has seen the rows arrive
    copier->gate(0, static_cast<cudaStream_t>(compute));
    for (const int odd : {0, 1}) n_wrong[odd] += wrong(odd);
  }
  CHECK(n_wrong[0] == 0);
  CHECK(n_wrong[1] == 0);
}

TEST_CASE("a failure while neurons move is thrown as a sentence", "[emulated]") {
  const auto [api, way] = GENERATE(
      std::pair{"launch", CopyWay::kGather}, std::pair{"kernel", CopyWay::kGather},
      std::pair{"cudaMemcpyAsync", CopyWay::kDma}, std::pair{"copy", CopyWay::kDma},
      std::pair{"cudaStreamWaitEvent", CopyWay::kDma}, std::pair{"cudaEventRecord", CopyWay::kGather});
  std::mt19937 rng(10);
  TestLayer layer({.shape = {.bundled = true}}, 0, 8, rng);
  {
    const auto copier = cuda::make_row_copier(std::array{&layer.get()}, {.way = way});
    cudaemu::fail_next(api, 0, cudaErrorIllegalAddress);
    INFO(api);
    const auto move = [&] {
      copier->start(0, std::vector<RowChange>{{4, 4}});
      copier->wait();
    };
    CHECK_THROWS_AS(move(), cuda::CudaError);
  }
  cudaemu::repair_device();
}

}  // namespace
}  // namespace hearth::test
