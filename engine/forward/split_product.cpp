// See the header.
#include "engine/forward/split_product.h"

#include <algorithm>
#include <array>

namespace hearth {

SplitProduct::SplitProduct(Backend& cpu, const ModelSpec& spec)
    : cpu_(cpu), d_ff_(spec.d_ff), d_model_(spec.d_model) {}

void SplitProduct::reserve(int max_tokens) {
  input_.reserve(static_cast<size_t>(max_tokens) * static_cast<size_t>(d_model_));
}

void SplitProduct::run(const LayerCall& call, const Matrix FfnNeurons::*weight,
                       const float* FfnNeurons::*bias, float* out) {
  const HybridLayer& layer = *call.neurons.hybrid;
  const int64_t n_on_device = layer.first_on_host;
  const auto n_tokens = static_cast<int64_t>(call.n_tokens);
  const auto n_input = static_cast<size_t>(n_tokens * d_model_);
  const float* input = call.backend.to_host(call.normed, n_input);
  input_.assign(input, input + n_input);
  if (n_on_device > 0) {
    // Neurons 0 to n_on_device - 1 are hot, and their device rows have the same numbers.
    Matrix rows = layer.device.*weight;
    rows.n_rows = n_on_device;
    float* products = call.work.gate.floats();
    call.backend.matmul(call.normed, call.n_tokens,
                        std::array{product({rows, layer.device.*bias}, products)});
    const float* computed = call.backend.to_host(products, static_cast<size_t>(n_tokens * n_on_device));
    for (int64_t t = 0; t < n_tokens; ++t) {
      std::copy_n(computed + t * n_on_device, n_on_device, out + t * d_ff_);
    }
  }
  Matrix rows = layer.host.*weight;
  rows.data = rows.row(n_on_device);
  rows.n_rows = d_ff_ - n_on_device;
  const float* const biases = layer.host.*bias;
  cpu_.matmul(input_.data(), call.n_tokens,
              std::array{Product{.weight = rows,
                                 .bias = biases == nullptr ? nullptr : biases + n_on_device,
                                 .out = out + n_on_device,
                                 .out_stride = d_ff_}});
}

}  // namespace hearth
