// Errors of the CUDA runtime as exceptions. Their text is a sentence.
#pragma once

#include <cuda_runtime.h>

#include <stdexcept>
#include <string>

namespace hearth::cuda {

/// A call of the CUDA runtime failed. After most errors, this process cannot use the device anymore.
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

/// Throws CudaError unless `code` is cudaSuccess. `doing` is a participle phrase such as "copying weights to
/// the device".
inline void check(cudaError_t code, const char* doing) {
  if (code != cudaSuccess) throw CudaError(code, doing);
}

}  // namespace hearth::cuda
