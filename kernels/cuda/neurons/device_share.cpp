#include "kernels/cuda/neurons/device_share.h"

#include <cassert>

namespace hearth::cuda {
namespace {

/// Computes the products with the listed rows. Columns of `out` are list indices. device_rows: see MatmulOp.
void multiply_listed(const Matrix& weight, const float* bias, const NeuronInput& input, int n_tokens,
                     const DeviceList& rows, const int32_t* device_rows, float* out, cudaStream_t stream) {
  matmul({.weight = weight,
          .bias = bias,
          .rows = rows,
          .device_rows = device_rows,
          .x = input.x,
          .quantized = input.quantized,
          .n_tokens = n_tokens,
          .out = out,
          .out_stride = rows.max,
          .accumulate = false},
         stream);
}

}  // namespace

NeuronRows rows_on_device(const HybridLayer& layer, const HybridCall& call) {
  return {.ffn = layer.device,
          .device_rows = layer.device_row,
          .gate_device_rows = layer.all_gates ? nullptr : layer.device_row,
          .least_contribution = call.least_contribution};
}

void add_neurons(const NeuronRows& rows, const NeuronInput& input, const DeviceNeuronSet& set,
                 const float* gates, const Scratch& scratch, cudaStream_t stream, const NeuronNotes& notes) {
  const FfnNeurons& ffn = rows.ffn;
  const bool by_number = gates != nullptr;
  DeviceList passed = set.any;
  int64_t gates_stride = set.n_neurons;
  if (rows.least_contribution) {
    // Do not reduce the list to neurons whose act(gate) is not zero. Limits on contributions exist only for
    // activations whose act(gate) is rarely zero, so the list would hardly get shorter. Besides, a limit of 0
    // must keep neurons whose value is zero.
    assert(!by_number && ffn.down_sizes != nullptr);
    multiply_listed(ffn.gate, ffn.gate_bias, input, set.n_tokens, set.any, rows.gate_device_rows,
                    scratch.gates, stream);
    gates = scratch.gates;
    gates_stride = set.any.max;
  } else if (!by_number) {
    multiply_listed(ffn.gate, ffn.gate_bias, input, set.n_tokens, set.any, rows.gate_device_rows,
                    scratch.values, stream);
    passed = {scratch.passed_ids, scratch.passed_count, set.any.max};
    keep_passed(ffn.activation, set, set.any, scratch.values, set.any.max, passed, scratch.gates,
                scratch.keep, stream);
    gates = scratch.gates;
    gates_stride = set.any.max;
  }
  if (ffn.up) {
    multiply_listed(ffn.up, ffn.up_bias, input, set.n_tokens, passed, rows.device_rows, scratch.ups, stream);
  }
  neuron_values({.activation = ffn.activation,
                 .set = set,
                 .passed = passed,
                 .gates = gates,
                 .gates_stride = gates_stride,
                 .gates_by_number = by_number,
                 .ups = ffn.up ? scratch.ups : nullptr},
                scratch.values, rows.least_contribution ? nullptr : scratch.counts, stream);
  if (rows.least_contribution) {
    drop_below(set, passed, ffn.down_sizes, *rows.least_contribution, scratch.values, scratch.counts, stream);
  }
  if (notes.ids != nullptr) note_neurons(passed, scratch.values, set.n_tokens, notes, stream);
  add_down(ffn.down, passed, scratch.values, set.n_tokens, scratch.sums, stream, rows.device_rows);
}

void add_values(const DownColumns& down, const float* values, const DeviceNeuronSet& set,
                const Scratch& scratch, cudaStream_t stream, const NeuronNotes& notes) {
  listed_values(set, values, scratch.values, scratch.counts, stream);
  if (notes.ids != nullptr) note_neurons(set.any, scratch.values, set.n_tokens, notes, stream);
  add_down(down, set.any, scratch.values, set.n_tokens, scratch.sums, stream);
}

}  // namespace hearth::cuda
