// Multiplies prompt tokens with the cuBLASLt library in steps of many tokens. The results do not have the
// same bits as the CPU's.
//
// This implements `--prompt-products fast`. Owned by CudaBackend, which decides for which tokens the library
// is used; engine thread. Weights of float types are read in place. Quantized weights are first dequantized
// to f16, piece by piece, on devices where that is worthwhile (library_decodes). Tokens are packed in the
// number type of the weights (cublaslt_rows.cuh).
//
// Reproducibility: the results of a token may depend only on its own values and on the weights, not on how
// its prompt is divided into steps or on other tokens in the step. NVIDIA promises equal bits for equal calls
// on one device. Therefore
//   - every call has exactly kLibraryTokens tokens, and missing tokens are zeros;
//   - each combination of shape and type uses one algorithm as long as the process runs: the first suitable
//     algorithm that the library's heuristic returns;
//   - no algorithm uses a workspace, a reduction scheme or a split of the columns.
// This also relies on a property that is not promised: the library's kernel adds up the products of a token
// in the same order at every token position of the call. tests/kernels/cuda/cublaslt_products_test.cpp checks
// this, also on a GPU.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <tuple>
#include <variant>

#include "kernels/backend.h"
#include "kernels/cuda/matmul/cublaslt.h"
#include "kernels/cuda/matmul/cublaslt_rows.cuh"
#include "kernels/cuda/runtime/library_scratch.h"

namespace hearth::cuda {

/// A call of the library failed. The text is a sentence.
class LibraryError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

class LibraryProducts {
 public:
  /// Starts the library for the current device. If the library cannot be used, returns a phrase with the
  /// reason.
  static std::variant<std::unique_ptr<LibraryProducts>, std::string> start();
  ~LibraryProducts();
  LibraryProducts(const LibraryProducts&) = delete;
  LibraryProducts& operator=(const LibraryProducts&) = delete;

  /// The library's name and version: "cuBLASLt 13.1.0".
  const std::string& name() const { return name_; }

  /// Whether the library can multiply by this matrix. This depends on the type, shape and alignment of the
  /// matrix, and on the size of the scratch. Queries the library the first time that a shape occurs.
  bool takes(const Matrix& weight, const LibraryScratch& scratch);

  /// Computes products that all have the same input x [n_tokens, n_cols]. n_tokens may be any number that the
  /// scratch has room for. Throws LibraryError and CudaError. REQUIRES: takes() is true for each weight, no
  /// product has a row list, and the stream is not being captured.
  void multiply(const float* x, int n_tokens, std::span<const Product> products,
                const LibraryScratch& scratch, cudaStream_t stream);

 private:
  explicit LibraryProducts(const CublasLt& library);

  /// The descriptors and the algorithm of a library call, which multiplies by one piece of a matrix.
  struct Call {
    LtLayout weights = nullptr, tokens = nullptr, products = nullptr;
    LtAlgorithm algorithm = {};
    bool usable = false;  // the library has an algorithm
  };
  /// The type, number of rows, number of columns, and row stride in elements.
  using Shape = std::tuple<LibraryType, int64_t, int64_t, int64_t>;

  const Call& call_of(const Shape& shape);
  bool find_algorithm(Call& call);
  template <class T>
  bool read_config(const LtAlgorithm& algorithm, int attribute, T& value) const;
  void make_preference();
  LtLayout make_layout(LibraryType type, int64_t n_rows, int64_t n_cols, int64_t stride);
  void require(LtStatus status, const char* doing) const;

  const CublasLt library_;
  std::string name_;
  LtHandle handle_ = nullptr;
  LtMatmulDesc product_ = nullptr;
  LtPreference preference_ = nullptr;
  std::map<Shape, Call> calls_;
  int compute_major_ = 0;
};

}  // namespace hearth::cuda
