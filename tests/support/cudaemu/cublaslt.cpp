// cuBLASLt on the emulator: checks the calls of kernels/cuda/matmul/cublaslt_products.cpp as the library
// does, and computes them in plain loops.
//
// Two things expose mistakes. Sums are added in an order that depends on the number of tokens in the call, so
// a token gets different bits in a call of another size. The heuristic's first algorithms split along the
// columns and need a workspace, so no caller should choose them.
#include "kernels/cuda/matmul/cublaslt.h"

#include <cuda_fp16.h>

#include <array>
#include <cstring>
#include <utility>
#include <vector>

#include "kernels/cuda/ops/kernel_work.h"
#include "tests/support/cudaemu/control.h"
#include "tests/support/cudaemu/errors.h"
#include "tests/support/cudaemu/memory.h"
#include "tests/support/cudaemu/stream.h"

namespace hearth::cuda {

struct LtHandleOpaque {};
struct LtMatmulDescOpaque {
  int compute_type = 0, scale_type = 0;
  int32_t transposed_a = kLtNotTransposed, transposed_b = kLtNotTransposed;
};
struct LtLayoutOpaque {
  int type = 0;
  uint64_t n_rows = 0, n_cols = 0;
  int64_t stride = 0;
};
struct LtPreferenceOpaque {
  uint64_t workspace_bytes = 0;
  uint32_t reductions = 7;
  uint32_t alignment[4] = {256, 256, 256, 256};
};

namespace {

constexpr uint32_t kAlignment = 16;  // required by the emulated algorithms

/// Runs a function of the library; `body` returns its status. fail_next() with the function's name makes it
/// fail.
template <class Body>
LtStatus call(const char* name, LtStatus failure, Body&& body) {
  if (cudaemu::device_error() != cudaSuccess || cudaemu::take_fault(name) != cudaSuccess) return failure;
  return std::forward<Body>(body)();
}

size_t element_bytes(int type) { return type == kLtF32 ? sizeof(float) : sizeof(uint16_t); }

float element(const std::byte* data, int type, size_t i) {
  if (type == kLtF32) {
    float value;
    std::memcpy(&value, data + i * sizeof(float), sizeof value);
    return value;
  }
  uint16_t bits;
  std::memcpy(&bits, data + i * sizeof(uint16_t), sizeof bits);
  if (type == kLtF16) return __half2float(__ushort_as_half(bits));
  const uint32_t wide = uint32_t{bits} << 16;
  float value;
  std::memcpy(&value, &wide, sizeof value);
  return value;
}

/// The sizes of a product: d [n_tokens, n_rows] = b [n_tokens, n_cols] * a [n_rows, n_cols]^T, row by row.
struct Shape {
  int type = 0;
  size_t n_rows = 0, n_cols = 0, n_tokens = 0, a_stride = 0, b_stride = 0, d_stride = 0;

  uint64_t hash() const {
    uint64_t all = 14695981039346656037ull;
    for (const size_t number :
         {static_cast<size_t>(type), n_rows, n_cols, n_tokens, a_stride, b_stride, d_stride})
      all = (all ^ number) * 1099511628211ull;
    return all;
  }
};

/// Returns whether the descriptions fit each other. Supports only what Hearth uses.
bool read_shape(LtMatmulDesc desc, LtLayout a, LtLayout b, LtLayout c, LtLayout d, Shape& shape) {
  if (desc == nullptr || a == nullptr || b == nullptr || c != d || d == nullptr) return false;
  shape = {.type = a->type,
           .n_rows = a->n_cols,
           .n_cols = a->n_rows,
           .n_tokens = b->n_cols,
           .a_stride = static_cast<size_t>(a->stride),
           .b_stride = static_cast<size_t>(b->stride),
           .d_stride = static_cast<size_t>(d->stride)};
  const auto aligned = [](const LtLayout layout) {
    return static_cast<size_t>(layout->stride) * element_bytes(layout->type) % kAlignment == 0;
  };
  return desc->compute_type == kLtComputeF32 && desc->scale_type == kLtF32 &&
         desc->transposed_a == kLtTransposed && desc->transposed_b == kLtNotTransposed &&
         b->type == a->type && d->type == kLtF32 && b->n_rows == a->n_rows && d->n_rows == a->n_cols &&
         d->n_cols == b->n_cols && aligned(a) && aligned(b) && aligned(d) && shape.a_stride >= shape.n_cols &&
         shape.b_stride >= shape.n_cols && shape.d_stride >= shape.n_rows;
}

size_t matrix_bytes(size_t n_rows, size_t n_cols, size_t stride, size_t of_element) {
  return ((n_rows - 1) * stride + n_cols) * of_element;
}

bool is_readable(const void* data, size_t bytes) {
  return reinterpret_cast<uintptr_t>(data) % kAlignment == 0 &&
         cudaemu::place_of(data, bytes) == cudaemu::Place::kDevice;
}

/// Computes the product. The columns are added to several sums in turn; how many depends on the number of
/// tokens.
void cublaslt_product(const Shape& s, const std::byte* a, const std::byte* b, float* d) {
  std::vector<float> weights(s.n_cols), token(s.n_cols * s.n_tokens);
  for (size_t t = 0; t < s.n_tokens; ++t) {
    for (size_t i = 0; i < s.n_cols; ++i) token[t * s.n_cols + i] = element(b, s.type, t * s.b_stride + i);
  }
  const size_t n_chains = 1 + s.n_tokens % 7;
  for (size_t r = 0; r < s.n_rows; ++r) {
    for (size_t i = 0; i < s.n_cols; ++i) weights[i] = element(a, s.type, r * s.a_stride + i);
    for (size_t t = 0; t < s.n_tokens; ++t) {
      std::array<float, 7> chains{};
      for (size_t i = 0; i < s.n_cols; ++i) chains[i % n_chains] += weights[i] * token[t * s.n_cols + i];
      float sum = 0.0f;
      for (const float chain : chains) sum += chain;
      d[t * s.d_stride + r] = sum;
    }
  }
}

size_t get_version() { return 130100; }

const char* get_status_string(LtStatus status) {
  return status == kLtNotInitialized ? "the library was not initialized" : "the emulated library failed";
}

LtStatus create(LtHandle* handle) {
  return call("cublasLtCreate", kLtNotInitialized, [&] {
    *handle = new LtHandleOpaque;
    return kLtSuccess;
  });
}

LtStatus destroy(LtHandle handle) {
  delete handle;
  return kLtSuccess;
}

LtStatus matmul_desc_create(LtMatmulDesc* desc, int compute_type, int scale_type) {
  return call("cublasLtMatmulDescCreate", kLtNotInitialized, [&] {
    *desc = new LtMatmulDescOpaque{.compute_type = compute_type, .scale_type = scale_type};
    return kLtSuccess;
  });
}

LtStatus matmul_desc_destroy(LtMatmulDesc desc) {
  delete desc;
  return kLtSuccess;
}

/// Copies a value of exactly the size of `to`.
template <class T>
LtStatus set_value(T& to, const void* value, size_t bytes) {
  if (value == nullptr || bytes != sizeof(T)) return kLtInvalidValue;
  std::memcpy(&to, value, bytes);
  return kLtSuccess;
}

LtStatus matmul_desc_set_attribute(LtMatmulDesc desc, int attribute, const void* value, size_t bytes) {
  return call("cublasLtMatmulDescSetAttribute", kLtInvalidValue, [&] {
    if (attribute == kLtTransposeA) return set_value(desc->transposed_a, value, bytes);
    if (attribute == kLtTransposeB) return set_value(desc->transposed_b, value, bytes);
    return kLtInvalidValue;
  });
}

LtStatus matrix_layout_create(LtLayout* layout, int type, uint64_t n_rows, uint64_t n_cols, int64_t stride) {
  return call("cublasLtMatrixLayoutCreate", kLtNotInitialized, [&] {
    *layout = new LtLayoutOpaque{.type = type, .n_rows = n_rows, .n_cols = n_cols, .stride = stride};
    return kLtSuccess;
  });
}

LtStatus matrix_layout_destroy(LtLayout layout) {
  delete layout;
  return kLtSuccess;
}

LtStatus preference_create(LtPreference* preference) {
  return call("cublasLtMatmulPreferenceCreate", kLtNotInitialized, [&] {
    *preference = new LtPreferenceOpaque;
    return kLtSuccess;
  });
}

LtStatus preference_destroy(LtPreference preference) {
  delete preference;
  return kLtSuccess;
}

LtStatus preference_set_attribute(LtPreference preference, int attribute, const void* value, size_t bytes) {
  return call("cublasLtMatmulPreferenceSetAttribute", kLtInvalidValue, [&] {
    if (attribute == kLtMaxWorkspaceBytes) return set_value(preference->workspace_bytes, value, bytes);
    if (attribute == kLtReductionSchemes) return set_value(preference->reductions, value, bytes);
    if (attribute < kLtAlignmentA || attribute > kLtAlignmentD) return kLtInvalidValue;
    return set_value(preference->alignment[attribute - kLtAlignmentA], value, bytes);
  });
}

// The contents of LtAlgorithm::data.
constexpr size_t kOfShape = 0, kSplits = 1, kReduction = 2;

LtStatus get_heuristic(LtHandle handle, LtMatmulDesc desc, LtLayout a, LtLayout b, LtLayout c, LtLayout d,
                       LtPreference preference, int n_wanted, LtHeuristicResult* results, int* n_found) {
  return call("cublasLtMatmulAlgoGetHeuristic", kLtNotSupported, [&] {
    Shape shape;
    *n_found = 0;
    if (handle == nullptr || preference == nullptr || n_wanted < 3) return kLtInvalidValue;
    if (!read_shape(desc, a, b, c, d, shape)) return kLtNotSupported;
    for (const uint32_t alignment : preference->alignment) {
      if (alignment < kAlignment) return kLtNotSupported;
    }
    const LtHeuristicResult plain{.algorithm = {.data = {shape.hash(), 1, kLtNoReduction}},
                                  .workspace_bytes = 0,
                                  .status = kLtSuccess,
                                  .n_waves = 1,
                                  .reserved = {}};
    results[0] = results[1] = results[2] = plain;
    results[0].algorithm.data[kSplits] = 2;
    results[1].workspace_bytes = 1;
    *n_found = 3;
    return kLtSuccess;
  });
}

LtStatus config_get_attribute(const LtAlgorithm* algorithm, int attribute, void* value, size_t bytes,
                              size_t* written) {
  return call("cublasLtMatmulAlgoConfigGetAttribute", kLtInvalidValue, [&] {
    if (bytes != sizeof(uint32_t) || (attribute != kLtConfigSplitK && attribute != kLtConfigReduction))
      return kLtInvalidValue;
    const auto number =
        static_cast<uint32_t>(algorithm->data[attribute == kLtConfigSplitK ? kSplits : kReduction]);
    std::memcpy(value, &number, sizeof number);
    *written = sizeof number;
    return kLtSuccess;
  });
}

LtStatus matmul(LtHandle handle, LtMatmulDesc desc, const void* alpha, const void* a, LtLayout a_layout,
                const void* b, LtLayout b_layout, const void* beta, const void* c, LtLayout c_layout, void* d,
                LtLayout d_layout, const LtAlgorithm* algorithm, void* workspace, size_t workspace_bytes,
                cudaStream_t stream) {
  return call("cublasLtMatmul", kLtExecutionFailed, [&] {
    Shape s;
    if (handle == nullptr || !read_shape(desc, a_layout, b_layout, c_layout, d_layout, s) || c != d ||
        algorithm == nullptr || workspace != nullptr || workspace_bytes != 0)
      return kLtInvalidValue;
    float factors[2];
    std::memcpy(&factors[0], alpha, sizeof(float));
    std::memcpy(&factors[1], beta, sizeof(float));
    const size_t of_element = element_bytes(s.type);
    const bool valid = factors[0] == 1.0f && factors[1] == 0.0f && algorithm->data[kOfShape] == s.hash() &&
                       algorithm->data[kSplits] == 1 &&
                       is_readable(a, matrix_bytes(s.n_rows, s.n_cols, s.a_stride, of_element)) &&
                       is_readable(b, matrix_bytes(s.n_tokens, s.n_cols, s.b_stride, of_element)) &&
                       is_readable(d, matrix_bytes(s.n_tokens, s.n_rows, s.d_stride, sizeof(float)));
    if (!valid) return kLtInvalidValue;
    const auto work = [s, of_element] {
      const double tokens = static_cast<double>(s.n_tokens), rows = static_cast<double>(s.n_rows);
      const double cols = static_cast<double>(s.n_cols);
      KernelWork done{
          .kind = KernelClass::kTiles,
          .bytes = (rows + tokens) * cols * static_cast<double>(of_element) + tokens * rows * sizeof(float)};
      // F32 has no tensor cores without TF32, so each multiply-add is an instruction.
      (s.type == kLtF32 ? done.instructions : done.multiply_adds) = tokens * rows * cols;
      return done;
    };
    const auto run = [=] {
      cublaslt_product(s, static_cast<const std::byte*>(a), static_cast<const std::byte*>(b),
                       static_cast<float*>(d));
    };
    const cudaError_t error = cudaemu::enqueue(
        stream, {cudaemu::WorkKind::kKernel, 0, reinterpret_cast<const void*>(&cublaslt_product), run, work});
    return error == cudaSuccess ? kLtSuccess : kLtExecutionFailed;
  });
}

}  // namespace

const std::variant<CublasLt, std::string>& find_cublaslt() {
  static const std::variant<CublasLt, std::string> library = CublasLt{
      .GetVersion = get_version,
      .GetStatusString = get_status_string,
      .Create = create,
      .Destroy = destroy,
      .MatmulDescCreate = matmul_desc_create,
      .MatmulDescDestroy = matmul_desc_destroy,
      .MatmulDescSetAttribute = matmul_desc_set_attribute,
      .MatrixLayoutCreate = matrix_layout_create,
      .MatrixLayoutDestroy = matrix_layout_destroy,
      .MatmulPreferenceCreate = preference_create,
      .MatmulPreferenceDestroy = preference_destroy,
      .MatmulPreferenceSetAttribute = preference_set_attribute,
      .MatmulAlgoGetHeuristic = get_heuristic,
      .MatmulAlgoConfigGetAttribute = config_get_attribute,
      .Matmul = matmul,
  };
  static const std::variant<CublasLt, std::string> absent = std::string("the emulated machine has none");
  return cudaemu::config().has_cublaslt ? library : absent;
}

}  // namespace hearth::cuda
