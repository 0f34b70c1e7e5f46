# The CUDA backend's sources, one operation a file, sorted. kernels/cuda builds them with nvcc,
# tests/support/cudaemu for the emulator.
set(HEARTH_CUDA_KERNELS
  add.cu
  add_down.cu
  add_sums.cu
  attention.cu
  attention_rows.cu
  attention_tiles.cu
  clear_sums.cu
  count_neurons.cu
  embed.cu
  gated_activation.cu
  gather_rows.cu
  keep_passed.cu
  kv_append.cu
  layer_norm.cu
  list_bits.cu
  listed_values.cu
  matmul.cu
  matmul_few.cu
  matmul_float.cu
  matmul_many.cu
  merge_sums.cu
  neuron_values.cu
  quantize.cu
  rms_norm.cu
  rope.cu
  select_neurons.cu
  split_set.cu
)
# Host code: calls the CUDA runtime, holds no kernels.
set(HEARTH_CUDA_HOST
  bandwidth.cpp
  cuda_backend.cpp
  device.cpp
  step_inputs.cpp
)
