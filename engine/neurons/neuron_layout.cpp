// Copies neurons into bundles, and to a device, layer by layer. See the header.
#include "engine/neurons/neuron_layout.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <exception>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "engine/model/gguf/mapped_file.h"
#include "engine/neurons/down_sizes.h"
#include "kernels/quant/coded_columns.h"

namespace hearth {
namespace {

constexpr size_t kLine = 64;  // bundles and tables start on cache lines
size_t padded(size_t bytes) { return (bytes + kLine - 1) / kLine * kLine; }

/// A layer's input matrices, named as in kernels/neurons.h: `gate` determines which neurons are active, `up`
/// may be null. In an FFN without a gate, `gate` is the up projection.
FfnNeurons inputs_of(const ModelSpec& spec, const LayerWeights& layer) {
  FfnNeurons ffn;
  ffn.activation = layer.activation.value_or(spec.activation);
  const Linear& first = spec.gated ? layer.gate : layer.up;
  ffn.gate = first.weight;
  ffn.gate_bias = first.bias;
  if (spec.gated) {
    ffn.up = layer.up.weight;
    ffn.up_bias = layer.up.bias;
  }
  return ffn;
}

DownColumns columns_in_file(const ModelSpec& spec, const LayerWeights& layer) {
  return {.rows = layer.down_rows.weight,
          .coded = {},
          .n_neurons = spec.d_ff,
          .n_cols = spec.d_model,
          .bias = layer.down_rows.bias};
}

/// Offsets of a neuron's rows in its bundle.
struct BundleShape {
  BundleShape(const ModelSpec& spec, const LayerWeights& layer, const BundleParts& parts) {
    const FfnNeurons ffn = inputs_of(spec, layer);
    gates = parts.gates;
    ups = ffn.up && parts.ups;
    if (gates) up_at = ffn.gate.stride_bytes();
    down_at = up_at + (ups ? ffn.up.stride_bytes() : 0);
    const size_t down_bytes = layer.down_rows.weight
                                  ? layer.down_rows.weight.stride_bytes()
                                  : column_codes_bytes(layer.down.weight.dtype, spec.d_model);
    stride = padded(down_at + down_bytes);
    if (!layer.down_rows.weight) table_bytes = padded(column_scales_bytes(layer.down.weight));
  }
  bool gates = false, ups = false;
  size_t up_at = 0, down_at = 0, stride = 0;
  size_t table_bytes = 0;  // scales and mins of a coded down projection
};

/// Bytes that one layer takes: its bundles, and copies of the matrices and tables that are read whole. The
/// copies have the layout's neuron order.
struct LayerBytes {
  size_t bundles = 0, tables = 0, gates = 0, predictor = 0, floats = 0;
  size_t total() const { return bundles + tables + gates + predictor + floats; }
};

class LayerBuilder {
 public:
  LayerBuilder(const ModelSpec& spec, const LayerWeights& layer, const BundleParts& parts,
               std::span<const int32_t> order)
      : spec_(spec), layer_(layer), parts_(parts), order_(order), shape_(spec, layer, parts) {
    const size_t n = static_cast<size_t>(spec.d_ff);
    bytes_.bundles = n * shape_.stride;
    bytes_.tables = shape_.table_bytes;
    if (!order.empty()) {
      const FfnNeurons ffn = inputs_of(spec, layer);
      if (!shape_.gates) bytes_.gates = padded(ffn.gate.bytes());
      if (parts.predictors) bytes_.predictor = padded(layer.predictor_out.bytes());
      bytes_.floats = 2 * padded(n * sizeof(float));
    }
    if (parts.sizes) bytes_.floats += padded(n * sizeof(float));
  }

  size_t bytes() const { return bytes_.total(); }

  size_t stride() const { return shape_.stride; }

  /// Returns views of `memory`, which has bytes() bytes and need not be filled yet.
  NeuronLayer views(std::byte* memory) { return build(memory, false); }
  /// Writes the layer's weights to `memory`.
  void fill(std::byte* memory) { build(memory, true); }

 private:
  NeuronLayer build(std::byte* memory, bool fills) {
    fills_ = fills;
    NeuronLayer out;
    out.ffn = inputs_of(spec_, layer_);
    if (parts_.predictors) out.predictor_out = layer_.predictor_out;
    std::byte* bundles = take(memory, bytes_.bundles);
    if (shape_.gates) out.ffn.gate = moved(out.ffn.gate, bundles, shape_.stride);
    if (shape_.ups) out.ffn.up = moved(out.ffn.up, bundles + shape_.up_at, shape_.stride);
    out.ffn.down = layer_.down_rows.weight ? move_rows(bundles) : turn(bundles, take(memory, bytes_.tables));
    if (!order_.empty()) {
      if (!shape_.gates) out.ffn.gate = moved(out.ffn.gate, take(memory, bytes_.gates), 0);
      if (out.predictor_out) out.predictor_out = moved(out.predictor_out, take(memory, bytes_.predictor), 0);
      out.ffn.gate_bias = moved(out.ffn.gate_bias, memory);
      out.ffn.up_bias = moved(out.ffn.up_bias, memory);
    }
    if (parts_.sizes) out.down_sizes = out.ffn.down_sizes = sizes_of_down(memory);
    return out;
  }

  static std::byte* take(std::byte*& memory, size_t bytes) {
    std::byte* taken = memory;
    memory += bytes;
    return taken;
  }
  int64_t source_of(int64_t j) const { return order_.empty() ? j : order_[static_cast<size_t>(j)]; }

  /// Copies the rows of `from` to `to` in the layout's neuron order. The rows at `to` are `stride` bytes
  /// apart (0: packed).
  Matrix moved(const Matrix& from, std::byte* to, size_t stride) const {
    Matrix out = from;
    out.data = to;
    out.row_stride = stride;
    const size_t row = row_bytes(from.dtype, from.n_cols);
    for (int64_t j = 0; j < from.n_rows && fills_; ++j) {
      std::memcpy(to + static_cast<size_t>(j) * out.stride_bytes(), from.row(source_of(j)), row);
    }
    return out;
  }
  const float* moved(const float* from, std::byte*& memory) const {
    if (from == nullptr) return nullptr;
    const size_t n = static_cast<size_t>(spec_.d_ff);
    float* to = reinterpret_cast<float*>(take(memory, padded(n * sizeof(float))));
    for (size_t j = 0; j < n && fills_; ++j) to[j] = from[source_of(static_cast<int64_t>(j))];
    return to;
  }
  DownColumns move_rows(std::byte* bundles) const {
    DownColumns down = columns_in_file(spec_, layer_);
    down.rows = moved(down.rows, bundles + shape_.down_at, shape_.stride);
    return down;
  }
  DownColumns turn(std::byte* bundles, std::byte* tables) const {
    const Matrix& down = layer_.down.weight;
    std::byte* codes = bundles + shape_.down_at;
    if (fills_) turn_neurons(down, 0, spec_.d_ff, codes, shape_.stride, tables);
    return turned_columns(down, layer_.down.bias, codes, shape_.stride, tables);
  }
  /// Computes the norm of each neuron's down column from the down projection in the file.
  const float* sizes_of_down(std::byte*& memory) const {
    const size_t n = static_cast<size_t>(spec_.d_ff);
    float* sizes = reinterpret_cast<float*>(take(memory, padded(n * sizeof(float))));
    if (!fills_) return sizes;
    down_sizes(layer_, spec_.d_model, spec_.d_ff, sizes);
    return sizes;
  }

  const ModelSpec& spec_;
  const LayerWeights& layer_;
  const BundleParts& parts_;
  std::span<const int32_t> order_;
  bool fills_ = false;
  BundleShape shape_;
  LayerBytes bytes_;
};

/// Copies the rows of one layer's neurons to the device, and the tables that map neurons to device rows. The
/// copy is complete when Memory::resident() returns.
class HybridBuilder {
 public:
  HybridBuilder(const NeuronLayer& host, const LayerPlacement& share, Memory& memory)
      : host_(host), share_(share), memory_(memory) {}

  /// Returns views of the layer's weights on the device. Fills `hybrid` if the device does not hold all
  /// neurons.
  NeuronLayer build(HybridLayer& hybrid) {
    const FfnNeurons& from = host_.ffn;
    const int64_t d_ff = from.gate.n_rows;
    NeuronLayer out;
    FfnNeurons& to = out.ffn;
    to.activation = from.activation;
    to.gate = share_.all_gates ? all_rows(from.gate) : device_rows(from.gate);
    if (from.up) to.up = device_rows(from.up);
    to.gate_bias = memory_.resident(from.gate_bias, d_ff);
    to.up_bias = memory_.resident(from.up_bias, d_ff);
    to.down = hot_columns(from.down);
    to.down_sizes = memory_.resident(from.down_sizes, d_ff);
    out.down_sizes = host_.down_sizes;
    out.predictor_out = memory_.resident(host_.predictor_out);

    const auto n_hot = static_cast<int64_t>(share_.hot.size());
    if (n_hot == d_ff) return out;

    hybrid.host = from;
    hybrid.device = to;
    hybrid.all_gates = share_.all_gates;
    hybrid.n_hot = n_hot;
    hybrid.n_device_rows = n_hot + share_.n_cache;
    std::vector<uint64_t> bits(static_cast<size_t>((d_ff + 63) / 64));
    std::vector<int32_t> device_rows(static_cast<size_t>(d_ff), -1);
    for (size_t device_row = 0; device_row < n_filled(); ++device_row) {
      const auto id = static_cast<size_t>(neuron_of(device_row));
      bits[id / 64] |= uint64_t{1} << (id % 64);
      device_rows[id] = static_cast<int32_t>(device_row);
    }
    hybrid.resident = reinterpret_cast<uint64_t*>(const_cast<std::byte*>(table(bits)));
    hybrid.device_row = reinterpret_cast<int32_t*>(const_cast<std::byte*>(table(device_rows)));
    out.hybrid = &hybrid;
    return out;
  }

 private:
  template <class T>
  const std::byte* table(const std::vector<T>& values) {
    return memory_.resident(reinterpret_cast<const std::byte*>(values.data()), values.size() * sizeof(T));
  }

  /// Allocates n + n_more rows of row_bytes each on the device. Row i < n is copied from row_at(i).
  template <class RowAt>
  const std::byte* pack_rows(size_t n, size_t n_more, size_t row_bytes, const RowAt& row_at) {
    const size_t bytes = (n + n_more) * row_bytes;
    if (!memory_.reads()) return memory_.resident(nullptr, bytes);
    std::vector<std::byte> packed(bytes);
    for (size_t i = 0; i < n; ++i) std::memcpy(packed.data() + i * row_bytes, row_at(i), row_bytes);
    return memory_.resident(packed.data(), bytes);
  }

  size_t n_hot() const { return share_.hot.size(); }
  size_t n_cache() const { return static_cast<size_t>(share_.n_cache); }
  /// n_filled: number of device rows with a neuron; hot neurons come first. n_empty: number of free rows in
  /// the cache.
  size_t n_filled() const { return n_hot() + share_.cached.size(); }
  size_t n_empty() const { return n_cache() - share_.cached.size(); }
  int32_t neuron_of(size_t device_row) const {
    return device_row < n_hot() ? share_.hot[device_row] : share_.cached[device_row - n_hot()];
  }

  Matrix device_rows(const Matrix& from) {
    const std::byte* rows = pack_rows(n_filled(), n_empty(), row_bytes(from.dtype, from.n_cols),
                                      [&](size_t i) { return from.row(neuron_of(i)); });
    return {rows, from.dtype, static_cast<int64_t>(n_hot() + n_cache()), from.n_cols};
  }
  Matrix all_rows(const Matrix& from) {
    const std::byte* rows = pack_rows(static_cast<size_t>(from.n_rows), 0, row_bytes(from.dtype, from.n_cols),
                                      [&](size_t i) { return from.row(static_cast<int64_t>(i)); });
    return {rows, from.dtype, from.n_rows, from.n_cols};
  }

  DownColumns hot_columns(const DownColumns& from) {
    DownColumns to = from;
    to.bias = memory_.resident(from.bias, from.n_cols);
    if (from.rows) {
      to.rows = device_rows(from.rows);
      return to;
    }
    // Codes are copied neuron by neuron. Groups of neurons share scales, so the scales are copied whole.
    CodedColumns& coded = to.coded;
    const size_t code_bytes = static_cast<size_t>(coded.n_cols_padded) * static_cast<size_t>(coded.bits) / 8;
    coded.codes = pack_rows(n_filled(), n_empty(), code_bytes, [&](size_t i) {
      return from.coded.codes + static_cast<size_t>(neuron_of(i)) * from.coded.stride;
    });
    coded.stride = code_bytes;
    const int64_t groups = (from.n_neurons + coded.group - 1) / coded.group;
    const size_t table_bytes =
        static_cast<size_t>(groups * coded.n_cols_padded) * (coded.half_scales ? 2 : sizeof(float));
    coded.scales = memory_.resident(from.coded.scales, table_bytes);
    if (coded.mins != nullptr) coded.mins = memory_.resident(from.coded.mins, table_bytes);
    return to;
  }

  const NeuronLayer& host_;
  const LayerPlacement& share_;
  Memory& memory_;
};

std::byte* bytes_of(const Buffer& buffer) { return reinterpret_cast<std::byte*>(buffer.floats()); }

/// Returns the neuron order of a layer. Empty for plain GGUF files, which keep their order, because scales in
/// them belong to groups of neurons.
std::span<const int32_t> order_of(const NeuronLayout::Order& order, const Weights& weights, int layer) {
  if (order.empty() || !weights.layers[static_cast<size_t>(layer)].down_rows.weight) return {};
  return order[static_cast<size_t>(layer)];
}

}  // namespace

uint64_t order_hash(const std::vector<std::vector<int32_t>>& order) {
  if (order.empty()) return 0;
  uint64_t hash = 14695981039346656037ull;
  for (const std::vector<int32_t>& layer : order) {
    for (const int32_t neuron : layer) hash = (hash ^ static_cast<uint64_t>(neuron)) * 1099511628211ull;
  }
  return hash;
}

NeuronLayout NeuronLayout::in_file(const ModelSpec& spec, const Weights& weights) {
  NeuronLayout layout;
  for (const LayerWeights& layer : weights.layers) {
    NeuronLayer out{
        .ffn = inputs_of(spec, layer), .dense_down = layer.down, .predictor_out = layer.predictor_out};
    if (layer.down_rows.weight) out.ffn.down = columns_in_file(spec, layer);
    layout.add(out);
  }
  return layout;
}

BundleParts bundle_parts(Sparsity mode, bool gates_apart) {
  return {.gates = mode == Sparsity::kPredicted || !gates_apart,
          .ups = mode != Sparsity::kCalibrated || !gates_apart,
          .predictors = mode == Sparsity::kPredicted,
          .sizes = mode == Sparsity::kCalibrated};
}

double NeuronLayout::bundle_bytes(const ModelSpec& spec, const Weights& weights, const BundleParts& parts,
                                  const Order& order) {
  double total = 0;
  for (int i = 0; i < spec.n_layers; ++i) {
    const LayerBuilder builder(spec, weights.layers[static_cast<size_t>(i)], parts,
                               order_of(order, weights, i));
    total += static_cast<double>(builder.bytes());
  }
  return total;
}

NeuronLayout NeuronLayout::in_bundles(const ModelSpec& spec, const Weights& weights, const BundleParts& parts,
                                      const Order& order, Memory& memory) {
  NeuronLayout layout;
  for (int i = 0; i < spec.n_layers; ++i) {
    LayerBuilder builder(spec, weights.layers[static_cast<size_t>(i)], parts, order_of(order, weights, i));
    layout.memory_.push_back(memory.allocate(builder.bytes()));
    layout.given_back_.push_back(0);
    layout.add(builder.views(bytes_of(layout.memory_.back())));
  }
  return layout;
}

void NeuronLayout::fill(const ModelSpec& spec, const Weights& weights, const BundleParts& parts,
                        const Order& order, int n_threads, const std::function<void(double)>& progress,
                        const std::function<void(int layer)>& filled) {
  const size_t n_layers = memory_.size();
  const size_t window = filled ? static_cast<size_t>(n_threads) : n_layers;
  // Progress counts two units of work for each layer: filling it, and the call of `filled`, which may copy
  // and page-lock the layer.
  size_t n_taken = 0;
  const auto advance = [&](size_t n_filled) {
    const size_t n_parts = filled ? 2 * n_layers : n_layers;
    if (progress) progress(static_cast<double>(n_filled + n_taken) / static_cast<double>(n_parts));
  };
  for (size_t begin = 0; begin < n_layers; begin += window) {
    const size_t end = std::min(n_layers, begin + window);
    std::atomic<size_t> next{begin}, done{begin};
    std::mutex mutex;
    std::exception_ptr failure;
    // Fills layers until none is left. After an exception, the other threads stop when they finish their
    // current layer.
    const auto fill_layers = [&](const auto& after_each) {
      try {
        for (size_t i = next++; i < end; i = next++) {
          LayerBuilder(spec, weights.layers[i], parts, order_of(order, weights, static_cast<int>(i)))
              .fill(bytes_of(memory_[i]));
          ++done;
          after_each();
        }
      } catch (...) {
        next = end;
        const std::lock_guard lock(mutex);
        if (!failure) failure = std::current_exception();
      }
    };
    {
      std::vector<std::jthread> helpers;
      // If no helper thread can be started, the calling thread fills all layers.
      try {
        for (int t = 1; t < n_threads; ++t) helpers.emplace_back([&] { fill_layers([] {}); });
      } catch (const std::system_error&) {
      }
      fill_layers([&] { advance(done); });
    }
    if (failure) std::rethrow_exception(failure);
    if (!filled) continue;
    for (size_t i = begin; i < end; ++i) {
      filled(static_cast<int>(i));
      ++n_taken;
      advance(end);
    }
  }
}

void NeuronLayout::add_whole(const NeuronLayer& host, Memory& memory) {
  NeuronLayer layer = host;
  FfnNeurons& ffn = layer.ffn;
  const int64_t d_ff = ffn.gate.n_rows;
  ffn.gate = memory.resident(ffn.gate);
  ffn.up = memory.resident(ffn.up);
  ffn.gate_bias = memory.resident(ffn.gate_bias, d_ff);
  ffn.up_bias = memory.resident(ffn.up_bias, d_ff);
  ffn.down.rows = memory.resident(ffn.down.rows);
  ffn.down.bias = memory.resident(ffn.down.bias, ffn.down.n_cols);
  layer.dense_down.weight = memory.resident(layer.dense_down.weight);
  layer.dense_down.bias = memory.resident(layer.dense_down.bias, layer.dense_down.weight.n_rows);
  layer.predictor_out = {};
  add(layer);
}

void NeuronLayout::add_shared(const NeuronLayer& host, const LayerPlacement& placement, Memory& memory) {
  auto hybrid = std::make_unique<HybridLayer>();
  hybrid->layer = static_cast<int>(layers_.size());
  hybrid->place = static_cast<int>(
      std::ranges::count_if(hybrids_, [](const auto& earlier) { return earlier != nullptr; }));
  layers_.push_back(HybridBuilder(host, placement, memory).build(*hybrid));
  if (layers_.back().hybrid == nullptr) hybrid.reset();
  hybrids_.push_back(std::move(hybrid));
}

const HybridLayer* NeuronLayout::next_hybrid(int index) const {
  for (size_t i = static_cast<size_t>(index) + 1; i < layers_.size(); ++i) {
    if (layers_[i].hybrid != nullptr) return layers_[i].hybrid;
  }
  return nullptr;
}

size_t NeuronLayout::give_back(int layer, int64_t n) {
  const auto at = static_cast<size_t>(layer);
  if (at >= memory_.size() || n == 0) return 0;
  const FfnNeurons& ffn = layers_[at].ffn;
  const size_t stride = ffn.down.rows ? ffn.down.rows.stride_bytes() : ffn.down.coded.stride;
  const size_t page = static_cast<size_t>(sysconf(_SC_PAGE_SIZE));
  given_back_[at] = static_cast<size_t>(n) * stride / page * page;
  gguf::release({bytes_of(memory_[at]), given_back_[at]});
  return given_back_[at];
}

std::span<const std::byte> NeuronLayout::kept(int layer) const {
  const auto at = static_cast<size_t>(layer);
  if (at >= memory_.size()) return {};
  return {bytes_of(memory_[at]) + given_back_[at], memory_[at].bytes() - given_back_[at]};
}

size_t NeuronLayout::bytes() const {
  size_t total = 0;
  for (size_t i = 0; i < memory_.size(); ++i) total += memory_[i].bytes() - given_back_[i];
  return total;
}

}  // namespace hearth
