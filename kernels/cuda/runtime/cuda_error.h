// Errors of the CUDA runtime as exceptions whose text is a sentence.
#pragma once

#include <cuda_runtime.h>

#include <stdexcept>
#include <string>

namespace hearth::cuda {

/// A call of the CUDA runtime failed. Most leave the device unusable for this process.
class CudaError : public std::runtime_error {
 public:
  CudaError(cudaError_t code, const std::string& doing)
      : std::runtime_error("CUDA failed while " + doing + ": " + cudaGetErrorString(code) + " (" +
                           cudaGetErrorName(code) + ")."),
        code_(code) {}
  cudaError_t code() const { return code_; }

 private:
  cudaError_t code_;
};

/// Throws CudaError unless `code` is success. `doing`: a participle, "copying weights to the device".
inline void check(cudaError_t code, const char* doing) {
  if (code != cudaSuccess) throw CudaError(code, doing);
}

}  // namespace hearth::cuda
