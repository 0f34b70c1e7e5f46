// Cold neurons of long steps, streamed to the device in pieces: the sums equal the CPU's, whatever the layout
// in host memory; copies overlap the computation of other pieces, and no piece is overwritten before it is
// read.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <string>

#include "kernels/cuda/cuda_backend.h"
#include "kernels/cuda/streaming/neuron_strips.h"
#include "tests/kernels/cuda/device_array.h"
#include "tests/kernels/neuron_layer.h"
#include "tests/support/catch.h"
#include "tests/support/cudaemu/control.h"

namespace hearth::test {
namespace {

struct Case {
  LayerShape shape;
  bool all_gates = false, pinned = true;
  int64_t piece_neurons = 64;
  int64_t first_on_host = 0;  // all lower ones are hot, and have no host memory
  int hot_of_four = 1;        // of the others
};

/// Host memory that is pinned as long as this object lives.
class Pins {
 public:
  void add(const std::vector<std::byte>& bytes) {
    if (bytes.empty()) return;
    auto* at = const_cast<std::byte*>(bytes.data());
    cuda::check(cudaHostRegister(at, bytes.size(), cudaHostRegisterMapped), "pinning");
    pinned_.push_back(at);
  }
  Pins() = default;
  Pins(const Pins&) = delete;
  Pins& operator=(const Pins&) = delete;
  ~Pins() {
    for (std::byte* at : pinned_) cudaHostUnregister(at);
  }

 private:
  std::vector<std::byte*> pinned_;
};

size_t buffer_bytes(const FfnNeurons& host, bool gates, int64_t piece_neurons) {
  size_t bytes = 0;
  while (cuda::NeuronStrips(host, gates, bytes).piece_neurons() < piece_neurons) bytes += 256;
  return bytes;
}

/// A layer shared between a host and a device.
class SharedLayer {
 public:
  SharedLayer(const Case& what, Layer& host, std::mt19937& rng) : what_(what) {
    layer_.host = host.ffn;
    layer_.all_gates = what.all_gates;
    layer_.host_pinned = what.pinned;
    layer_.first_on_host = what.first_on_host;
    for (int32_t j = 0; j < what.shape.d_ff; ++j) {
      if (j == what.shape.d_ff - 1) break;  // at least one is left to stream
      if (j < what.first_on_host || static_cast<int>(rng() % 4) < what.hot_of_four) hot_.push_back(j);
    }
    layer_.n_hot = layer_.n_device_rows = static_cast<int64_t>(hot_.size());
  }

  /// Gives the backend the hot neurons, and takes back the memory that the host releases.
  void place(Backend& backend, Layer& layer) {
    const FfnNeurons& host = layer_.host;
    FfnNeurons& device = layer_.device;
    device = host;
    std::vector<int32_t> all(static_cast<size_t>(what_.shape.d_ff));
    for (size_t j = 0; j < all.size(); ++j) all[j] = static_cast<int32_t>(j);
    device.gate = packed(host.gate, what_.all_gates ? all : hot_, backend);
    if (host.up) device.up = packed(host.up, hot_, backend);
    device.down.rows = packed(host.down.rows, hot_, backend);
    device.down.bias = backend.resident(host.down.bias, host.down.n_cols);
    device.gate_bias = backend.resident(host.gate_bias, what_.shape.d_ff);
    device.up_bias = backend.resident(host.up_bias, what_.shape.d_ff);
    std::vector<uint64_t> bits((all.size() + 63) / 64);
    std::vector<int32_t> device_rows(all.size(), 1 << 30);
    for (size_t device_row = 0; device_row < hot_.size(); ++device_row) {
      const auto j = static_cast<size_t>(hot_[device_row]);
      bits[j / 64] |= uint64_t{1} << (j % 64);
      device_rows[j] = static_cast<int32_t>(device_row);
    }
    layer_.resident = const_cast<uint64_t*>(there(bits, backend));
    layer_.device_row = const_cast<int32_t*>(there(device_rows, backend));
    // Released memory must not be read.
    for (const Matrix* matrix : {&host.gate, &host.up, &host.down.rows}) {
      if (!*matrix) continue;
      for (int64_t j = 0; j < what_.first_on_host; ++j) {
        std::memset(const_cast<std::byte*>(matrix->row(j)), 0xff, row_bytes(matrix->dtype, matrix->n_cols));
      }
    }
    if (!what_.pinned) return;
    for (const auto* bytes : {&layer.gate.bytes, &layer.up.bytes, &layer.down.bytes, &layer.bundles})
      pins_.add(*bytes);
  }
  const HybridLayer& get() const { return layer_; }

 private:
  static Matrix packed(const Matrix& from, const std::vector<int32_t>& rows, Backend& backend) {
    const size_t bytes = row_bytes(from.dtype, from.n_cols);
    std::vector<std::byte> all(rows.size() * bytes);
    for (size_t i = 0; i < rows.size(); ++i) std::memcpy(all.data() + i * bytes, from.row(rows[i]), bytes);
    return {backend.resident(all.data(), all.size()), from.dtype, static_cast<int64_t>(rows.size()),
            from.n_cols};
  }
  template <class T>
  static const T* there(const std::vector<T>& values, Backend& backend) {
    return reinterpret_cast<const T*>(
        backend.resident(reinterpret_cast<const std::byte*>(values.data()), values.size() * sizeof(T)));
  }

  Case what_;
  std::vector<int32_t> hot_;
  HybridLayer layer_;
  Pins pins_;
};

StepBounds bounds_of(const LayerShape& shape, int n_tokens, size_t stream_bytes) {
  return {.max_tokens = n_tokens,
          .max_cols = std::max(shape.d_ff, shape.d_model),
          .d_model = shape.d_model,
          .head_dim = 32,
          .n_sets = 1,
          .shares = true,
          .stream_bytes = stream_bytes};
}

float* upload(const std::vector<float>& values, Backend& backend) {
  return const_cast<float*>(backend.resident(values.data(), static_cast<int64_t>(values.size())));
}

/// The contents of `out` after the CPU has summed all wanted neurons.
std::vector<float> by_cpu(CpuBackend& cpu, const FfnNeurons& ffn, const std::vector<float>& x, int n_tokens,
                          const NeuronSet& set, const std::vector<float>& residual, NeuronCounts& counts) {
  const auto n_cols = static_cast<size_t>(ffn.down.n_cols);
  std::vector<int64_t> sums(residual.size());
  std::vector<int32_t> poison(static_cast<size_t>(n_tokens));
  cpu.ffn_neuron_sums(ffn, x.data(), n_tokens, set, nullptr, {sums.data(), poison.data()}, counts);
  std::vector<float> out = residual;
  for (size_t i = 0; i < out.size(); ++i) {
    out[i] += static_cast<float>(sums[i]) * 0x1p-36f;
    if (ffn.down.bias != nullptr) out[i] += ffn.down.bias[i % n_cols];
  }
  return out;
}

void check_case(const Case& what, int n_tokens) {
  std::mt19937 rng(12);
  const LayerShape& shape = what.shape;
  Layer host = random_layer(shape, rng);
  SharedLayer layer(what, host, rng);
  const std::vector<float> x = random_activations(n_tokens * shape.d_model, rng);
  const std::vector<float> residual = random_activations(n_tokens * shape.d_model, rng);
  const std::vector<float> scores = random_activations(n_tokens * shape.d_ff, rng);

  CpuBackend cpu(2, supported_isas().front());
  const size_t buffer = buffer_bytes(host.ffn, !what.all_gates, what.piece_neurons);
  const StepBounds bounds = bounds_of(shape, n_tokens, buffer);
  NeuronSet set;
  set.reserve(n_tokens, shape.d_ff);
  NeuronCounts expected_counts, counts;
  std::vector<float> expected;
  {
    CpuBackend alone(1, supported_isas().front());
    alone.reserve(bounds);
    alone.select_neurons(scores.data(), nullptr, n_tokens, shape.d_ff, -0.3f, set);
    expected = by_cpu(alone, host.ffn, x, n_tokens, set, residual, expected_counts);
  }
  const auto device = cuda::make_device(cpu, {.budget_bytes = 16 << 20, .stream_from_tokens = 1});
  device->reserve(bounds);
  Backend& backend = device->backend();
  const NeuronSetId wanted = backend.make_set();
  layer.place(backend, host);
  const float* x_there = upload(x, backend);
  const float* scores_there = upload(scores, backend);
  float* out = upload(residual, backend);
  const Buffer gates_there = backend.allocate(scores.size() * sizeof(float));
  cudaemu::reset_stats();
  const float* gates = nullptr;
  if (what.all_gates) {
    const Product product{.weight = layer.get().device.gate,
                          .bias = layer.get().device.gate_bias,
                          .out = gates_there.floats(),
                          .out_stride = shape.d_ff};
    backend.matmul(x_there, n_tokens, {&product, 1});
    gates = gates_there.floats();
  }
  backend.select_neurons(scores_there, nullptr, n_tokens, shape.d_ff, -0.3f, wanted);
  device->hybrid_ffn().run(layer.get(),
                           {.x = x_there, .n_tokens = n_tokens, .wanted = wanted, .gates = gates, .out = out},
                           counts);
  const float* found = backend.to_host(out, expected.size());
  CHECK(std::memcmp(found, expected.data(), expected.size() * sizeof(float)) == 0);
  CHECK(counts.proposed == expected_counts.proposed);
  CHECK(counts.passed == expected_counts.passed);
  CHECK(counts.active == expected_counts.active);
  if (!cudaemu::is_emulated()) return;
  CHECK(cudaemu::stats().pageable_async == 0);
  // The copies must bring all neurons from first_on_host on, and at most 10 % more bytes.
  const auto rows = [](const Matrix& matrix) { return matrix ? row_bytes(matrix.dtype, matrix.n_cols) : 0; };
  const FfnNeurons& ffn = host.ffn;
  const auto brought = static_cast<size_t>(shape.d_ff - what.first_on_host) *
                       ((what.all_gates ? 0 : rows(ffn.gate)) + rows(ffn.up) + rows(ffn.down.rows));
  CHECK(cudaemu::stats().h2d_bytes >= brought);
  CHECK(cudaemu::stats().h2d_bytes < brought + brought / 10);
}

TEST_CASE("CUDA: neurons brought to the device contribute what they would on the CPU, wherever they lie") {
  const bool bundled = GENERATE(false, true), all_gates = GENERATE(false, true),
             pinned = GENERATE(false, true);
  const DType type = GENERATE(DType::kQ4_0, DType::kQ8_0);
  const LayerShape shape{
      .d_model = 256, .d_ff = 500, .type = type, .down_type = DType::kQ6_K, .bundled = bundled};
  INFO("bundled " << bundled << " all gates " << all_gates << " pinned " << pinned);
  check_case({.shape = shape, .all_gates = all_gates, .pinned = pinned}, 20);
  check_case({.shape = shape, .all_gates = all_gates, .pinned = pinned, .piece_neurons = 192}, 3);
}

TEST_CASE("CUDA: neurons of any FFN are brought to the device from any first one, in one piece or many") {
  const bool gated = GENERATE(false, true), bundled = GENERATE(false, true);
  const LayerShape shape{.d_model = 64,
                         .d_ff = 300,
                         .down_type = DType::kF32,
                         .gated = gated,
                         .biases = true,
                         .bundled = bundled};
  for (const int64_t first : {0, 1, 64, 130, 299}) {
    for (const int64_t piece_neurons : {64, 128, 512}) {
      for (const int hot_of_four : {0, 3}) {
        INFO("first " << first << " pieces of " << piece_neurons << " hot " << hot_of_four);
        check_case({.shape = shape,
                    .piece_neurons = piece_neurons,
                    .first_on_host = first,
                    .hot_of_four = hot_of_four},
                   17);
      }
    }
  }
}

TEST_CASE("CUDA: sets belong to the device, and one more than it has reserved is an error") {
  CpuBackend cpu(1, supported_isas().front());
  const auto device = cuda::make_device(cpu, {.budget_bytes = 8 << 20});
  device->reserve({.max_tokens = 2, .max_cols = 64, .head_dim = 32, .n_sets = 2});
  Backend& backend = device->backend();
  const NeuronSetId even = backend.make_set(), none = backend.make_set();
  CHECK_THROWS_WITH(backend.make_set(), ContainsSubstring("for 2 sets of neurons was reserved"));
  std::vector<float> values(64, 0.0f);
  for (size_t j = 0; j < values.size(); j += 2) values[j] = 1.0f;
  const float* there = upload(values, backend);
  backend.select_neurons(there, nullptr, 1, 64, 0.5f, even);
  backend.select_neurons(there, nullptr, 1, 64, 2.0f, none);
  CHECK(backend.to_host(even).count() == 32);
  CHECK(backend.to_host(none).ids().empty());
}

TEST_CASE("CUDA: neurons stay with the CPU in short steps, and if 64 of them do not fit a buffer") {
  const LayerShape shape{.d_model = 64, .d_ff = 200};
  std::mt19937 rng(4);
  Layer host = random_layer(shape, rng);
  const size_t too_small = buffer_bytes(host.ffn, true, 64) - 256;
  for (const auto& [stream_bytes, from_tokens] :
       {std::pair{too_small, 1}, {too_small + 256, 0}, {too_small + 256, 6}, {size_t{0}, 1}}) {
    INFO(stream_bytes << " bytes, from " << from_tokens << " tokens");
    CpuBackend cpu(1, supported_isas().front());
    const Case what{.shape = shape, .pinned = false, .hot_of_four = 0};
    SharedLayer layer(what, host, rng);
    const auto device = cuda::make_device(cpu, {.budget_bytes = 8 << 20, .stream_from_tokens = from_tokens});
    device->reserve(bounds_of(shape, 5, stream_bytes));
    Backend& backend = device->backend();
    const NeuronSetId wanted = backend.make_set();
    layer.place(backend, host);
    cpu.reserve(bounds_of(shape, 5, 0));
    const std::vector<float> x = random_activations(5 * shape.d_model, rng);
    const float* x_there = upload(x, backend);
    float* out = upload(x, backend);
    const Buffer scores = backend.allocate(static_cast<size_t>(5 * shape.d_ff) * sizeof(float));
    NeuronCounts counts;
    cudaemu::record_intervals(true);
    backend.select_neurons(scores.floats(), nullptr, 5, shape.d_ff, 0.0f, wanted);
    device->hybrid_ffn().run(
        layer.get(), {.x = x_there, .n_tokens = 5, .wanted = wanted, .gates = nullptr, .out = out}, counts);
    backend.finish();
    const std::vector<cudaemu::Interval> all = cudaemu::intervals();
    cudaemu::record_intervals(false);
    // The device reads the CPU's sums where they are.
    const auto to_device =
        std::ranges::count(all, cudaemu::WorkKind::kHostToDevice, &cudaemu::Interval::kind);
    CHECK(to_device == 0);
    CHECK(counts.cold_down_rows > 0);
  }
}

using cudaemu::Interval;

std::vector<Interval> named(const std::vector<Interval>& all, const std::string& part) {
  std::vector<Interval> some;
  for (const Interval& interval : all) {
    if (interval.name.find(part) != std::string::npos) some.push_back(interval);
  }
  return some;
}

TEST_CASE("CUDA: a piece is copied while another is computed, even across layers, and never over one in use",
          "[emulated]") {
  constexpr int kTokens = 32, kLayers = 3, kPieces = 6;
  const LayerShape shape{.d_model = 128, .d_ff = 64 * kPieces, .bundled = true};
  const Case what{.shape = shape, .hot_of_four = 0};
  std::mt19937 rng(5);
  CpuBackend cpu(1, supported_isas().front());
  std::vector<Layer> hosts;
  for (int i = 0; i < kLayers; ++i) hosts.push_back(random_layer(shape, rng));
  const size_t buffer = buffer_bytes(hosts[0].ffn, true, 64);
  const auto device = cuda::make_device(cpu, {.budget_bytes = 16 << 20, .stream_from_tokens = 2});
  device->reserve(bounds_of(shape, kTokens, buffer));
  Backend& backend = device->backend();
  const NeuronSetId wanted = backend.make_set();
  std::vector<std::unique_ptr<SharedLayer>> layers;
  for (Layer& host : hosts) {
    layers.push_back(std::make_unique<SharedLayer>(what, host, rng));
    layers.back()->place(backend, host);
  }
  const std::vector<float> x = random_activations(kTokens * shape.d_model, rng);
  const float* x_there = upload(x, backend);
  float* out = upload(x, backend);
  const Buffer scores = backend.allocate(static_cast<size_t>(kTokens * shape.d_ff) * sizeof(float));
  NeuronCounts counts;
  // 14 KB take a millisecond and more, and computing them takes several. Whether the two overlap depends on
  // the machine's scheduler, so there are several attempts; forbidden overlaps must occur in none.
  cudaemu::config().bus_mb_per_s = 10;
  int n_overlapping = 0, n_across_layers = 0;
  for (int attempt = 0; attempt < 50 && (n_overlapping == 0 || n_across_layers == 0); ++attempt) {
    cudaemu::record_intervals(true);
    for (const auto& layer : layers) {
      backend.select_neurons(scores.floats(), nullptr, kTokens, shape.d_ff, 0.0f, wanted);
      device->hybrid_ffn().run(
          layer->get(), {.x = x_there, .n_tokens = kTokens, .wanted = wanted, .gates = nullptr, .out = out},
          counts);
    }
    backend.finish();
    const std::vector<Interval> all = cudaemu::intervals();
    cudaemu::record_intervals(false);

    // A piece is computed from its list to its down rows. Before its pieces a layer lists the hot neurons and
    // adds their down rows.
    const std::vector<Interval> lists = named(all, "list_kernel"), downs = named(all, "add_down_kernel");
    REQUIRE(lists.size() == kLayers * (1 + kPieces));
    REQUIRE(downs.size() == kLayers * (1 + kPieces));
    std::vector<Interval> copies, computed;
    for (const Interval& interval : all) {
      if (interval.kind == cudaemu::WorkKind::kHostToDevice) copies.push_back(interval);
    }
    for (size_t layer = 0; layer < kLayers; ++layer) {
      for (size_t piece = 0; piece < kPieces; ++piece) {
        computed.push_back(lists[layer * (1 + kPieces) + 1 + piece]);
        computed.back().end = downs[layer * (1 + kPieces) + 1 + piece].end;
      }
    }
    REQUIRE(copies.size() == computed.size());
    for (size_t i = 0; i < copies.size(); ++i) {
      INFO("piece " << i);
      CHECK(copies[i].stream != computed[i].stream);
      CHECK(copies[i].end <= computed[i].begin);
      if (i >= 2) CHECK(copies[i].begin >= computed[i - 2].end);
      if (i == 0 || !copies[i].overlaps(computed[i - 1])) continue;
      ++n_overlapping;
      n_across_layers += i % kPieces == 0 ? 1 : 0;
    }
  }
  cudaemu::config().bus_mb_per_s = 0;
  CHECK(n_overlapping > 0);
  CHECK(n_across_layers > 0);
}

}  // namespace
}  // namespace hearth::test
