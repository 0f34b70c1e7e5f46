// RecurrentOps on a CUDA device: enqueues the operations of recurrent layers
// (kernels/cuda/ops/recurrent_ops.h) and copies the runs of a step to the device.
//
// Owned by CudaBackend; engine thread. Runs change from step to step, but a recorded step always makes the
// same launches. So in decoding steps the launches are large enough for any runs with as many tokens, and the
// kernels read the runs from device memory.
#pragma once

#include "kernels/compute_device.h"
#include "kernels/cuda/hybrid/device_work.h"
#include "kernels/cuda/ops/recurrent_ops.h"
#include "kernels/cuda/runtime/step_inputs.h"
#include "kernels/recurrent.h"

namespace hearth::cuda {

class RecurrentCuda final : public RecurrentOps {
 public:
  /// Both must outlive this object.
  RecurrentCuda(DeviceWork& work, StepInputs& inputs) : work_(work), inputs_(inputs) {}

  void begin_step(const StepShape& shape) { shape_ = shape; }

  void causal_conv(const CausalConv& call) override;
  void delta_gates(const DeltaGates& call) override;
  void gated_delta(const GatedDelta& call) override;
  void selective_scan(const SelectiveScan& call) override;

 private:
  DeviceRuns on_device(std::span<const RecurrentRun> runs, std::span<const RecurrentCopy> copies);

  DeviceWork& work_;
  StepInputs& inputs_;
  StepShape shape_;  // of the current step
};

}  // namespace hearth::cuda
