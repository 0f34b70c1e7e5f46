// See the header.
#include "kernels/cuda/recurrent_cuda.h"

#include <algorithm>
#include <stdexcept>
#include <string>

namespace hearth::cuda {
namespace {

/// The number of rows of the step's arrays up to the end of the last run.
int64_t n_rows(std::span<const RecurrentRun> runs) {
  int64_t rows = 0;
  for (const RecurrentRun& run : runs)
    rows = std::max<int64_t>(rows, int64_t{run.first_token} + run.n_tokens);
  return rows;
}

/// The most runs of a decoding step. Every run has a token and a block table.
int most_runs(const StepShape& shape) {
  return shape.n_tables > 0 ? std::min(shape.n_tokens, shape.n_tables) : shape.n_tokens;
}

}  // namespace

DeviceRuns RecurrentCuda::on_device(std::span<const RecurrentRun> runs,
                                    std::span<const RecurrentCopy> copies) {
  int n = static_cast<int>(runs.size()), most_tokens = 0;
  for (const RecurrentRun& run : runs) most_tokens = std::max(most_tokens, run.n_tokens);
  if (shape_.decoding) {
    if (n > most_runs(shape_) || most_tokens > shape_.n_tokens || !copies.empty()) {
      throw std::logic_error(
          "A decoding step of " + std::to_string(shape_.n_tokens) + " tokens has " + std::to_string(n) +
          " runs with up to " + std::to_string(most_tokens) + " tokens and " + std::to_string(copies.size()) +
          " copies in a recurrent layer, expected at most " + std::to_string(most_runs(shape_)) +
          " runs and no copies; this is a mistake in Hearth.");
    }
    n = most_runs(shape_);
    most_tokens = shape_.n_tokens;
  }
  return {inputs_.on_device(runs, static_cast<size_t>(n), work_.recorder()), n, most_tokens};
}

void RecurrentCuda::causal_conv(const CausalConv& call) {
  const int64_t rows = n_rows(call.runs);
  const std::array<int64_t, 3> widths = call.shape.conv_parts();
  for (size_t part = 0; part < widths.size(); ++part) {
    if (widths[part] > 0) work_.writes(call.out[part], rows * widths[part]);
  }
  work_.enqueue([call, runs = on_device(call.runs, call.copies), stream = work_.stream()] {
    cuda::causal_conv(call, runs, stream);
  });
}

void RecurrentCuda::delta_gates(const DeltaGates& call) {
  const int64_t n = int64_t{call.n_tokens} * call.n_v_heads;
  work_.writes(call.decay, n);
  work_.writes(call.beta, n);
  work_.enqueue([call, stream = work_.stream()] { cuda::delta_gates(call, stream); });
}

void RecurrentCuda::gated_delta(const GatedDelta& call) {
  work_.writes(call.out, n_rows(call.runs) * call.shape.value_dim());
  work_.enqueue([call, runs = on_device(call.runs, call.copies), counters = work_.scratch().delta_counters,
                 stream = work_.stream()] { cuda::gated_delta(call, runs, counters, stream); });
}

void RecurrentCuda::selective_scan(const SelectiveScan& call) {
  const GatedDelta& state = call.state;
  work_.writes(state.out, n_rows(state.runs) * state.shape.value_dim());
  work_.enqueue([call, runs = on_device(state.runs, state.copies), counters = work_.scratch().delta_counters,
                 stream = work_.stream()] { cuda::selective_scan(call, runs, counters, stream); });
}

}  // namespace hearth::cuda
