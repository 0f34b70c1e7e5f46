// See the header.
#include "engine/neurons/expert_layout.h"

#include <algorithm>
#include <atomic>
#include <thread>

#include "engine/model/gguf/mapped_file.h"
#include "kernels/quant/coded_columns.h"

namespace hearth {
namespace {

size_t copied_bytes_of(const MixtureWeights& mixture) {
  size_t bytes = 0;
  for (const std::vector<Expert>* experts : {&mixture.experts, &mixture.shared}) {
    for (const Expert& expert : *experts) bytes += packed_columns_bytes(expert.down);
  }
  return bytes;
}

/// Copies the transposed down projection of an expert to the memory that expert.down_columns refers to.
void copy_down(const Expert& expert) {
  pack_columns(expert.down, const_cast<std::byte*>(expert.down_columns.begin()));
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
        expert.down_columns = packed_columns(expert.down, at);
        at += packed_columns_bytes(expert.down);
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
