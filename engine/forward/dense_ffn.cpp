// See the header.
#include "engine/forward/dense_ffn.h"

#include <array>

namespace hearth {
void compute_values(const LayerCall& call, const FfnNeurons& ffn) {
  float *gate = call.work.gate.floats(), *up = call.work.up.floats();
  if (ffn.up) {
    call.backend.matmul(
        call.normed, call.n_tokens,
        std::array{product({ffn.gate, ffn.gate_bias}, gate), product({ffn.up, ffn.up_bias}, up)});
  } else {
    call.backend.matmul(call.normed, call.n_tokens, std::array{product({ffn.gate, ffn.gate_bias}, gate)});
  }
  if (call.gate_cut) call.backend.cut_rows(*call.gate_cut, call.n_tokens, ffn.gate.n_rows, gate);
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
