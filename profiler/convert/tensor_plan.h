// Plans the tensors of a file: which elements of a checkpoint become the rows of each tensor.
//
// Every rearrangement is described by the positions of rows: row i of a tensor in the file consists of
// `n_cols` elements of a stored tensor, which begin at first_at(i) and are `stride` apart. A row is copied
// only when it is needed, so memory use does not depend on the tensors' sizes.
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
  int64_t stride = 1;  // between the elements of a row
  /// If not empty, a row consists of segments of equal lengths, one for each number here. The number is the
  /// segment's offset from first_at(). Elements of a segment are adjacent, and `stride` is not used.
  std::vector<int64_t> segments;
  /// Returns the index in `source` of the first element of the view's row `row`. If `mxfp4` is set, returns
  /// the index of the stored row instead.
  std::function<int64_t(int64_t row)> first_at;
  int64_t scale_rows = 0, scale_cols = 0;  // rows and columns that share an FP8 scale; 0: one scale for all
  // True for MXFP4: `source` holds blocks of 16 bytes, and `scales` holds one byte for each block.
  bool mxfp4 = false;
};

/// Describes how a stored number x becomes the file's number.
enum class Change : uint8_t {
  kNone,
  kPlusOne,   // 1 + x
  kMinusExp,  // -e^x
};

struct PlannedTensor {
  std::string name;
  DType type = DType::kF32;
  std::vector<int64_t> shape;  // GGUF's order: columns first
  std::vector<RowView> parts;  // the tensor's rows are those of parts[0], then those of parts[1], and so on
  std::vector<float> values;   // the elements if they come from no stored tensor; `parts` is then empty
  Change change = Change::kNone;
  int64_t n_zero_rows = 0;              // rows of zeros behind those of `parts`
  std::vector<RowFactor> factors = {};  // applied after `change`; empty: none
};

/// Returns the plan, ordered by layer. `type` is the type of matrices. Norms, biases, routers and position
/// tables are F32, as in llama.cpp's files. Throws std::runtime_error (one sentence) if a tensor is unknown,
/// missing or of a wrong shape, because the model would then give wrong answers.
std::vector<PlannedTensor> plan_tensors(const Checkpoint& checkpoint, const Config& config,
                                        const Family& family, DType type);

/// The number of elements of all tensors, which is proportional to the work.
uint64_t planned_elements(const std::vector<PlannedTensor>& plan);

}  // namespace hearth::convert
