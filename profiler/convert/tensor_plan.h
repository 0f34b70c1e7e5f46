// Plans which tensors a file gets from a checkpoint, and where each of their rows lies in the checkpoint.
//
// Every rearrangement is an order of rows: row i of a tensor in the file is `n_cols` elements of a stored
// tensor, from a first element on, with a stride. Nothing is copied before a row is needed, so memory use
// does not depend on sizes.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/dtype.h"
#include "profiler/convert/checkpoint.h"
#include "profiler/convert/config.h"
#include "profiler/convert/family.h"

namespace hearth::convert {

/// Rows of one stored tensor.
struct RowView {
  const StoredTensor* source = nullptr;
  const StoredTensor* scales = nullptr;  // for FP8 and MXFP4; else null
  int64_t n_rows = 0, n_cols = 0;
  int64_t stride = 1;                            // between the elements of a row
  std::function<int64_t(int64_t row)> first_at;  // a row's first element; for MXFP4, the number of the row
  int64_t scale_rows = 0, scale_cols = 0;        // rows and columns of one FP8 scale; 0: one scale for all
  bool mxfp4 = false;                            // source holds blocks of 16 bytes, scales one byte for each
};

struct PlannedTensor {
  std::string name;
  DType type = DType::kF32;
  std::vector<int64_t> shape;  // GGUF's order: columns first
  std::vector<RowView> parts;  // the rows of the parts, one part after the other
  std::vector<float> values;   // instead of parts, if no stored tensor has the values
  bool plus_one = false;       // add 1 to each element
};

/// The plan, in the order of layers. type: that of matrices; norms, biases, routers and tables of positions
/// are F32, as in llama.cpp's files. Throws std::runtime_error (one sentence) if a tensor is unknown,
/// missing, or has a wrong shape, because leaving one out would give wrong answers.
std::vector<PlannedTensor> plan_tensors(const Checkpoint& checkpoint, const Config& config,
                                        const Family& family, DType type);

/// The number of elements of all tensors, which measures the work.
uint64_t planned_elements(const std::vector<PlannedTensor>& plan);

}  // namespace hearth::convert
