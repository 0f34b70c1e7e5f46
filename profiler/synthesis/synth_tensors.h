// Makes one tensor of a synthetic model. A function fills the tensor's rows, which are converted to the
// tensor's type on many threads.
//
// Called by synth_model.cpp and synth_mixture.cpp, which list a model's tensors, on one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "kernels/cpu/threads/thread_pool.h"
#include "kernels/dtype.h"
#include "kernels/quant/quantize.h"

namespace hearth {

struct SynthTensor {
  std::string name;  // for a tensor of a layer, the part after "blk.N."
  DType dtype = DType::kF32;
  std::vector<int64_t> shape;  // GGUF's order
  std::vector<std::byte> bytes;
};

class TensorMaker {
 public:
  /// n_elements: the number of elements of all tensors that will be made. Calls `progress` with the completed
  /// share, and passes on what it throws.
  TensorMaker(int n_threads, int64_t n_elements, const std::function<void(double)>& progress)
      : pool_(n_threads), progress_(progress), n_elements_(n_elements) {}

  /// Makes a tensor of `count` matrices [n_rows, n_cols], or a plain matrix if count is 0. fill(row, values)
  /// must set the values [n_cols] of a row; rows are numbered across all matrices. Any thread may call
  /// `fill`. The bytes do not depend on the number of threads.
  template <class Fill>
  SynthTensor stack(std::string name, DType dtype, int64_t count, int64_t n_rows, int64_t n_cols,
                    const Fill& fill) {
    SynthTensor tensor{std::move(name), dtype, {n_cols, n_rows}, {}};
    if (count > 0) tensor.shape.push_back(count);
    const int64_t all_rows = n_rows * (count > 0 ? count : 1);
    const size_t stride = row_bytes(dtype, n_cols);
    tensor.bytes.resize(stride * static_cast<size_t>(all_rows));
    std::vector<float> scratch(static_cast<size_t>(pool_.n_threads()) * static_cast<size_t>(n_cols));
    // Making a stack of experts takes seconds. Make it in pieces, so that progress is shown and interrupts
    // take effect between two pieces.
    constexpr int64_t kPieceElements = int64_t{1} << 26;
    const int64_t piece = kPieceElements / n_cols + 1;
    for (int64_t first = 0; first < all_rows; first += piece) {
      const int64_t n = std::min(piece, all_rows - first);
      pool_.for_each_piece(n, 16, [&](int64_t begin, int64_t end, int worker) {
        const std::span<float> values =
            std::span(scratch).subspan(static_cast<size_t>(worker * n_cols), static_cast<size_t>(n_cols));
        for (int64_t row = first + begin; row < first + end; ++row) {
          fill(row, values);
          quantize_row(dtype, values.data(), n_cols, tensor.bytes.data() + static_cast<size_t>(row) * stride);
        }
      });
      done(n * n_cols);
    }
    return tensor;
  }

  /// A tensor of independent normally distributed values.
  SynthTensor random_stack(std::string name, DType dtype, int64_t count, int64_t n_rows, int64_t n_cols,
                           uint64_t stream, double deviation);

  /// A float tensor of one value.
  static SynthTensor constant(std::string name, std::vector<int64_t> shape, float value);

  /// Reports that n_elements more elements are made.
  void done(int64_t n_elements);
  ThreadPool& pool() { return pool_; }

 private:
  ThreadPool pool_;
  const std::function<void(double)>& progress_;
  int64_t n_elements_, n_done_ = 0;
};

}  // namespace hearth
