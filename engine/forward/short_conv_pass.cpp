// See the header.
#include "engine/forward/short_conv_pass.h"

#include <array>

#include "engine/forward/layer_call.h"

namespace hearth {
namespace {

bool has_short_convs(const ModelSpec& spec) {
  return spec.recurrent && spec.recurrent.kind == RecurrentKind::kShortConv;
}

}  // namespace

ShortConvWorkspace::ShortConvWorkspace(Memory& memory, const ModelSpec& spec, int max_tokens) {
  if (!has_short_convs(spec)) return;
  for (Buffer* const buffer : {&raw, &gate, &mixed}) *buffer = floats(memory, max_tokens, spec.d_model);
}

double ShortConvWorkspace::bytes_needed(const ModelSpec& spec, int max_tokens) {
  return has_short_convs(spec) ? 3.0 * sizeof(float) * max_tokens * spec.d_model : 0.0;
}

void run_short_conv(Backend& backend, const ModelSpec& spec, const ShortConvWorkspace& work,
                    const RecurrentLayer& layer) {
  const ShortConvWeights& weights = layer.weights.short_conv;
  const int64_t n = int64_t{layer.n_tokens} * spec.d_model;
  float *raw = work.raw.floats(), *gate = work.gate.floats(), *mixed = work.mixed.floats();

  // 1. Project the layer's input to the convolution's input and to two gates.
  backend.matmul(layer.normed, layer.n_tokens,
                 std::array{product(weights.input_gate, raw), product(weights.output_gate, gate),
                            product(weights.input, mixed)});

  // 2. Convolve the gated input over the last tokens, and gate the result.
  backend.gated_activation({Activation::kIdentity}, raw, mixed, n, raw);
  backend.recurrent()->causal_conv({.shape = spec.recurrent,
                                    .runs = layer.runs,
                                    .copies = layer.tail_copies,
                                    .raw = raw,
                                    .taps = weights.taps,
                                    .memory = layer.memory,
                                    .out = {mixed},
                                    .silu = false});
  backend.gated_activation({Activation::kIdentity}, gate, mixed, n, mixed);

  // 3. Project.
  backend.matmul(mixed, layer.n_tokens, std::array{product(weights.out, layer.out, layer.accumulate)});
}

}  // namespace hearth
