# The CUDA backend's sources, one operation a file, sorted. kernels/cuda builds them with nvcc,
# tests/support/cudaemu for the emulator.
set(HEARTH_CUDA_KERNELS
  add.cu
  add_sums.cu
  clear_sums.cu
  select_neurons.cu
)
# Host code: calls the CUDA runtime, holds no kernels.
set(HEARTH_CUDA_HOST
)
