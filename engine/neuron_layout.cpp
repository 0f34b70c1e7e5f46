// Copies neurons into bundles, layer by layer.
#include "engine/neuron_layout.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>
#include <exception>
#include <mutex>
#include <system_error>
#include <thread>

#include "kernels/quant/coded_columns.h"
#include "kernels/quant/dequantize.h"

namespace hearth {
namespace {

constexpr size_t kLine = 64;  // bundles and tables start on cache lines
size_t padded(size_t bytes) { return (bytes + kLine - 1) / kLine * kLine; }

/// A layer's input matrices under the names of kernels/neurons.h: `gate` decides, `up` may be null.
FfnNeurons inputs_of(const ModelSpec& spec, const LayerWeights& layer) {
  FfnNeurons ffn;
  ffn.activation = spec.activation;
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

/// Which rows of a neuron lie in its bundle, and where.
struct BundleShape {
  BundleShape(const ModelSpec& spec, const LayerWeights& layer, Sparsity mode) {
    const FfnNeurons ffn = inputs_of(spec, layer);
    gates = mode == Sparsity::kPredicted;
    ups = ffn.up && mode != Sparsity::kCalibrated;
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

/// Bytes of one layer, besides the bundles: matrices that are read whole but lie in another order.
struct LayerBytes {
  size_t bundles = 0, tables = 0, gates = 0, predictor = 0, floats = 0;
  size_t total() const { return bundles + tables + gates + predictor + floats; }
};

class LayerBuilder {
 public:
  LayerBuilder(const ModelSpec& spec, const LayerWeights& layer, Sparsity mode,
               std::span<const int32_t> order)
      : spec_(spec), layer_(layer), mode_(mode), order_(order), shape_(spec, layer, mode) {
    const size_t n = static_cast<size_t>(spec.d_ff);
    bytes_.bundles = n * shape_.stride;
    bytes_.tables = shape_.table_bytes;
    if (!order.empty()) {
      const FfnNeurons ffn = inputs_of(spec, layer);
      if (!shape_.gates) bytes_.gates = padded(ffn.gate.bytes());
      if (mode == Sparsity::kPredicted) bytes_.predictor = padded(layer.predictor_out.bytes());
      bytes_.floats = 2 * padded(n * sizeof(float));
    }
    if (mode == Sparsity::kCalibrated) bytes_.floats += padded(n * sizeof(float));
  }

  size_t bytes() const { return bytes_.total(); }

  /// Fills `memory` (bytes() bytes) and returns the views of it.
  NeuronLayer build(std::byte* memory) {
    NeuronLayer out;
    out.ffn = inputs_of(spec_, layer_);
    if (mode_ == Sparsity::kPredicted) out.predictor_out = layer_.predictor_out;
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
    if (mode_ == Sparsity::kCalibrated) out.down_sizes = sizes_of_down(memory);
    return out;
  }

 private:
  static std::byte* take(std::byte*& memory, size_t bytes) {
    std::byte* taken = memory;
    memory += bytes;
    return taken;
  }
  int64_t source_of(int64_t j) const { return order_.empty() ? j : order_[static_cast<size_t>(j)]; }

  /// Copies the rows of `from` to `to`, `stride` bytes apart (0: packed), in the layout's order.
  Matrix moved(const Matrix& from, std::byte* to, size_t stride) const {
    Matrix out = from;
    out.data = to;
    out.row_stride = stride;
    const size_t row = row_bytes(from.dtype, from.n_cols);
    for (int64_t j = 0; j < from.n_rows; ++j) {
      std::memcpy(to + static_cast<size_t>(j) * out.stride_bytes(), from.row(source_of(j)), row);
    }
    return out;
  }
  const float* moved(const float* from, std::byte*& memory) const {
    if (from == nullptr) return nullptr;
    const size_t n = static_cast<size_t>(spec_.d_ff);
    float* to = reinterpret_cast<float*>(take(memory, padded(n * sizeof(float))));
    for (size_t j = 0; j < n; ++j) to[j] = from[source_of(static_cast<int64_t>(j))];
    return to;
  }
  DownColumns move_rows(std::byte* bundles) const {
    DownColumns down = columns_in_file(spec_, layer_);
    down.rows = moved(down.rows, bundles + shape_.down_at, shape_.stride);
    return down;
  }
  DownColumns turn(std::byte* bundles, std::byte* tables) const {
    return turn_down_projection(layer_.down.weight, layer_.down.bias, bundles + shape_.down_at, shape_.stride,
                                tables);
  }
  /// The norm of each neuron's down column, from the file's matrix.
  const float* sizes_of_down(std::byte*& memory) const {
    const size_t n = static_cast<size_t>(spec_.d_ff);
    float* sizes = reinterpret_cast<float*>(take(memory, padded(n * sizeof(float))));
    std::fill_n(sizes, n, 0.0f);
    std::vector<float> row(n);
    for (int64_t c = 0; c < spec_.d_model; ++c) {
      dequantize_row(layer_.down.weight.dtype, layer_.down.weight.row(c), spec_.d_ff, row.data());
      for (size_t j = 0; j < n; ++j) sizes[j] += row[j] * row[j];
    }
    for (size_t j = 0; j < n; ++j) sizes[j] = std::sqrt(sizes[j]);
    return sizes;
  }

  const ModelSpec& spec_;
  const LayerWeights& layer_;
  Sparsity mode_;
  std::span<const int32_t> order_;
  BundleShape shape_;
  LayerBytes bytes_;
};

const std::byte* bytes_of(const Buffer& buffer) {
  return reinterpret_cast<const std::byte*>(buffer.floats());
}

/// The order of a layer's neurons; none for plain files, whose scales belong to runs of neurons.
std::span<const int32_t> order_of(const NeuronLayout::Order& order, const Weights& weights, int layer) {
  if (order.empty() || !weights.layers[static_cast<size_t>(layer)].down_rows.weight) return {};
  return order[static_cast<size_t>(layer)];
}

}  // namespace

NeuronLayout NeuronLayout::in_file(const ModelSpec& spec, const Weights& weights) {
  NeuronLayout layout;
  for (const LayerWeights& layer : weights.layers) {
    NeuronLayer out{
        .ffn = inputs_of(spec, layer), .dense_down = layer.down, .predictor_out = layer.predictor_out};
    if (layer.down_rows.weight) out.ffn.down = columns_in_file(spec, layer);
    layout.layers_.push_back(out);
  }
  return layout;
}

double NeuronLayout::bundle_bytes(const ModelSpec& spec, const Weights& weights, Sparsity mode,
                                  const Order& order) {
  double total = 0;
  for (int i = 0; i < spec.n_layers; ++i) {
    const LayerBuilder builder(spec, weights.layers[static_cast<size_t>(i)], mode,
                               order_of(order, weights, i));
    total += static_cast<double>(builder.bytes());
  }
  return total;
}

NeuronLayout NeuronLayout::in_bundles(const ModelSpec& spec, const Weights& weights, Sparsity mode,
                                      const Order& order, int n_threads, Backend& backend,
                                      const std::function<void(double)>& progress) {
  NeuronLayout layout;
  std::vector<LayerBuilder> builders;
  for (int i = 0; i < spec.n_layers; ++i) {
    builders.emplace_back(spec, weights.layers[static_cast<size_t>(i)], mode, order_of(order, weights, i));
    layout.memory_.push_back(backend.allocate(builders.back().bytes()));
  }
  layout.layers_.resize(builders.size());

  std::atomic<size_t> next{0}, done{0};
  std::mutex mutex;
  std::exception_ptr failure;
  // Builds layers until none is left. What is thrown ends the other threads' work with the layer they are at.
  const auto build_layers = [&](const auto& after_each) {
    try {
      for (size_t i = next++; i < builders.size(); i = next++) {
        layout.layers_[i] = builders[i].build(reinterpret_cast<std::byte*>(layout.memory_[i].floats()));
        ++done;
        after_each();
      }
    } catch (...) {
      next = builders.size();
      const std::lock_guard lock(mutex);
      if (!failure) failure = std::current_exception();
    }
  };
  {
    std::vector<std::jthread> helpers;
    // Without helpers the calling thread builds alone.
    try {
      for (int t = 1; t < n_threads; ++t) helpers.emplace_back([&] { build_layers([] {}); });
    } catch (const std::system_error&) {
    }
    build_layers([&] {
      if (progress) progress(static_cast<double>(done) / static_cast<double>(builders.size()));
    });
  }
  if (failure) std::rethrow_exception(failure);
  return layout;
}

NeuronLayout NeuronLayout::resident(Backend& backend) const {
  NeuronLayout placed;
  // Bundles go over whole; what is a view of them keeps its place in them.
  std::vector<const std::byte*> copies;
  for (const Buffer& buffer : memory_) copies.push_back(backend.resident(bytes_of(buffer), buffer.bytes()));
  for (const NeuronLayer& layer : layers_) placed.layers_.push_back(layer);
  for (size_t i = 0; i < layers_.size(); ++i) {
    const auto place_bytes = [&](const std::byte* host, size_t bytes) -> const std::byte* {
      if (host == nullptr) return nullptr;
      if (i < memory_.size()) {
        const std::byte* begin = bytes_of(memory_[i]);
        if (host >= begin && host < begin + memory_[i].bytes()) return copies[i] + (host - begin);
      }
      return backend.resident(host, bytes);
    };
    const auto place = [&](Matrix& matrix) { matrix.data = place_bytes(matrix.data, matrix.bytes()); };
    const auto place_floats = [&](const float*& values, int64_t n) {
      values = reinterpret_cast<const float*>(
          place_bytes(reinterpret_cast<const std::byte*>(values), static_cast<size_t>(n) * sizeof(float)));
    };
    NeuronLayer& layer = placed.layers_[i];
    FfnNeurons& ffn = layer.ffn;
    const int64_t d_ff = ffn.gate.n_rows;
    place(ffn.gate);
    place(ffn.up);
    place_floats(ffn.gate_bias, d_ff);
    place_floats(ffn.up_bias, d_ff);
    place(ffn.down.rows);
    place_floats(ffn.down.bias, ffn.down.n_cols);
    CodedColumns& coded = ffn.down.coded;
    coded.codes = place_bytes(coded.codes, 0);    // these two
    coded.scales = place_bytes(coded.scales, 0);  // and mins are always in bundles
    coded.mins = place_bytes(coded.mins, 0);
    place(layer.dense_down.weight);
    place_floats(layer.dense_down.bias, layer.dense_down.weight.n_rows);
    place(layer.predictor_out);
    place_floats(layer.down_sizes, d_ff);
  }
  return placed;
}

size_t NeuronLayout::bytes() const {
  size_t total = 0;
  for (const Buffer& buffer : memory_) total += buffer.bytes();
  return total;
}

}  // namespace hearth
