// See the header.
#include "engine/neurons/expert_layout.h"

#include <algorithm>
#include <atomic>
#include <thread>

#include "engine/model/gguf/mapped_file.h"
#include "kernels/quant/coded_columns.h"

namespace hearth {
namespace {

/// Neurons and tables start on cache lines.
size_t whole_lines(size_t bytes) { return (bytes + 63) / 64 * 64; }

size_t neuron_stride(const Matrix& down) { return whole_lines(column_codes_bytes(down.dtype, down.n_rows)); }
size_t codes_bytes(const Matrix& down) { return neuron_stride(down) * static_cast<size_t>(down.n_cols); }
size_t copied_bytes_of(const Matrix& down) {
  return codes_bytes(down) + whole_lines(column_scales_bytes(down));
}

size_t copied_bytes_of(const MixtureWeights& mixture) {
  size_t bytes = 0;
  for (const std::vector<Expert>* experts : {&mixture.experts, &mixture.shared}) {
    for (const Expert& expert : *experts) bytes += copied_bytes_of(expert.down);
  }
  return bytes;
}

/// Copies the transposed down projection of an expert to the memory that expert.down_columns refers to.
void copy_down(const Expert& expert) {
  const DownColumns& to = expert.down_columns;
  const std::byte* codes = to.rows ? to.rows.data : to.coded.codes;
  turn_neurons(expert.down, 0, expert.down.n_cols, const_cast<std::byte*>(codes), neuron_stride(expert.down),
               const_cast<std::byte*>(codes) + codes_bytes(expert.down));
}

}  // namespace

double ExpertLayout::copied_bytes(const Weights& weights) {
  double bytes = 0;
  for (const LayerWeights& layer : weights.layers) {
    bytes += static_cast<double>(copied_bytes_of(layer.mixture));
  }
  return bytes;
}

ExpertLayout::ExpertLayout(const Weights& weights, Memory& memory) {
  for (const LayerWeights& from : weights.layers) {
    const MixtureWeights& mixture = from.mixture;
    Layer& layer = layers_.emplace_back(
        Layer{mixture.experts, mixture.shared, memory.allocate(copied_bytes_of(mixture))});
    auto* at = reinterpret_cast<std::byte*>(layer.memory.floats());
    for (std::vector<Expert>* experts : {&layer.experts, &layer.shared}) {
      for (Expert& expert : *experts) {
        const Matrix& down = expert.down;
        expert.down_columns = turned_columns(down, nullptr, at, neuron_stride(down), at + codes_bytes(down));
        at += copied_bytes_of(down);
      }
    }
  }
}

void ExpertLayout::fill(int n_threads, const std::function<void(double)>& progress) {
  for (size_t i = 0; i < layers_.size(); ++i) {
    const Layer& layer = layers_[i];
    std::atomic<size_t> next{0};
    const auto copy_experts = [&] {
      for (size_t e = next++; e < layer.experts.size(); e = next++) copy_down(layer.experts[e]);
    };
    {
      std::vector<std::jthread> others;
      for (int t = 1; t < n_threads && !layer.experts.empty(); ++t) others.emplace_back(copy_experts);
      copy_experts();
    }
    for (const Expert& expert : layer.shared) copy_down(expert);
    for (const std::vector<Expert>* experts : {&layer.experts, &layer.shared}) {
      for (const Expert& expert : *experts) gguf::release({expert.down.data, expert.down.bytes()});
    }
    if (progress) progress(static_cast<double>(i + 1) / static_cast<double>(layers_.size()));
  }
}

size_t ExpertLayout::bytes() const {
  size_t bytes = 0;
  for (const Layer& layer : layers_) bytes += layer.memory.bytes();
  return bytes;
}

}  // namespace hearth
