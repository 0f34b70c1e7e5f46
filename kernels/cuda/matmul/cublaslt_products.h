// Multiplies prompt tokens with a library, cuBLASLt, in steps of many tokens. The results do not have the
// CPU's bits.
//
// For --prompt-products fast. Owned by CudaBackend, which decides for which tokens it is used; engine thread.
// Weights of float types are read in place. Quantized weights are dequantized to f16 first, piece by piece,
// on devices where that pays (library_decodes). Tokens are packed in the weights' number type
// (cublaslt_rows.cuh).
//
// Equal bits: a token's results may depend only on its own values and the weights, not on how its prompt is
// cut or what else is in the step. NVIDIA promises equal bits for equal calls on one device, so
//   - every call has kLibraryTokens tokens, the missing ones zero, and never another number of them;
//   - a shape and type has one algorithm as long as the process runs, the first that the library's heuristic
//     gives;
//   - no algorithm has a workspace, a reduction scheme or a split along the columns.
// It also relies on one more property: such a kernel adds up a token's products in the same order at every
// token position of the call. tests/kernels/cuda/cublaslt_products_test.cpp checks this, on a GPU too.
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
  /// Starts the library for the current device. Returns a phrase that says why it cannot be used, if that is
  /// so.
  static std::variant<std::unique_ptr<LibraryProducts>, std::string> start();
  ~LibraryProducts();
  LibraryProducts(const LibraryProducts&) = delete;
  LibraryProducts& operator=(const LibraryProducts&) = delete;

  /// The library's name and version: "cuBLASLt 13.1.0".
  const std::string& name() const { return name_; }

  /// Whether the library multiplies by this matrix, which depends on its type, shape and alignment, and on
  /// the size of the scratch. Asks the library the first time that a shape occurs.
  bool takes(const Matrix& weight, const LibraryScratch& scratch);

  /// Computes the products, all with the same x [n_tokens, n_cols]. n_tokens may be any number that the
  /// scratch has room for. Throws LibraryError and CudaError. REQUIRES: takes() each weight, no rows are
  /// listed, and the stream does not record.
  void multiply(const float* x, int n_tokens, std::span<const Product> products,
                const LibraryScratch& scratch, cudaStream_t stream);

 private:
  explicit LibraryProducts(const CublasLt& library);

  /// The descriptors and the algorithm of one call, for a piece of a matrix.
  struct Call {
    LtLayout weights = nullptr, tokens = nullptr, products = nullptr;
    LtAlgorithm algorithm = {};
    bool usable = false;  // the library has an algorithm
  };
  /// Type, rows, columns and stride of a row, in elements.
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
