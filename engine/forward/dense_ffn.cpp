// See the header.
#include "engine/forward/dense_ffn.h"

#include <array>
#include <cmath>

namespace hearth {
namespace {

/// Subtracts from each number the mean of its row, and n_deviations times the standard deviation of its row.
/// Sets negative results to zero.
void cut_rows(float n_deviations, int n_rows, int64_t n_cols, float* x) {
  for (int r = 0; r < n_rows; ++r, x += n_cols) {
    double sum = 0.0, squares = 0.0;
    for (int64_t i = 0; i < n_cols; ++i) sum += double{x[i]};
    const double mean = sum / static_cast<double>(n_cols);
    for (int64_t i = 0; i < n_cols; ++i) squares += (double{x[i]} - mean) * (double{x[i]} - mean);
    const double deviation = std::sqrt(squares / static_cast<double>(n_cols));
    const auto least = static_cast<float>(mean + double{n_deviations} * deviation);
    // Written so that a NaN stays one.
    for (int64_t i = 0; i < n_cols; ++i) x[i] = x[i] <= least ? 0.0f : x[i] - least;
  }
}

}  // namespace

void compute_values(const LayerCall& call, const FfnNeurons& ffn) {
  float *gate = call.work.gate.floats(), *up = call.work.up.floats();
  if (ffn.up) {
    call.backend.matmul(
        call.normed, call.n_tokens,
        std::array{product({ffn.gate, ffn.gate_bias}, gate), product({ffn.up, ffn.up_bias}, up)});
  } else {
    call.backend.matmul(call.normed, call.n_tokens, std::array{product({ffn.gate, ffn.gate_bias}, gate)});
  }
  if (call.gate_cut) cut_rows(*call.gate_cut, call.n_tokens, ffn.gate.n_rows, gate);
  call.backend.gated_activation(ffn.activation, gate, ffn.up ? up : nullptr,
                                int64_t{call.n_tokens} * ffn.gate.n_rows, gate);
}

void compute_observed_values(const LayerCall& call, FfnObservers& observers) {
  observers.before_ffn(call.layer, call.x, call.n_tokens);
  compute_values(call);
  observers.report_neurons(call.layer, call.work.gate.floats(), call.n_tokens);
}

void run_dense_ffn(const LayerCall& call, FfnObservers& observers) {
  compute_observed_values(call, observers);
  call.backend.matmul(call.work.gate.floats(), call.n_tokens,
                      std::array{product(call.neurons.dense_down, call.out, /*accumulate=*/true)});
}

}  // namespace hearth
