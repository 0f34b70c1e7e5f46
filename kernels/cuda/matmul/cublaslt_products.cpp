// Implements LibraryProducts. The library's matrices are column-major. For the library, the weights [n_rows,
// n_cols] are an n_cols x n_rows matrix that it transposes, the tokens are an n_cols x n_tokens matrix, and
// the products are an n_rows x n_tokens matrix with gaps between its columns.
#include "kernels/cuda/matmul/cublaslt_products.h"

#include <algorithm>
#include <array>
#include <cassert>
#include <optional>
#include <utility>

#include "kernels/cpu/isa/matmul_kernels.h"
#include "kernels/cuda/ops/simulated_device.h"
#include "kernels/cuda/runtime/device_attribute.h"

namespace hearth::cuda {
namespace {

// The alignment of addresses and strides that the library may rely on. Memory from the arena has a larger
// alignment.
constexpr uint32_t kAlignment = 16;
// The number of algorithms to consider. The library returns the fastest algorithm first.
constexpr int kCandidates = 16;

int library_number(LibraryType type) {
  switch (type) {
    case LibraryType::kF16:
      return kLtF16;
    case LibraryType::kBF16:
      return kLtBF16;
    case LibraryType::kF32:
      break;
  }
  return kLtF32;
}

/// Returns the number type in which the library multiplies this matrix.
LibraryType type_of(const Matrix& weight) {
  if (weight.dtype == DType::kF32) return LibraryType::kF32;
  return weight.dtype == DType::kBF16 ? LibraryType::kBF16 : LibraryType::kF16;
}

std::string version_text(size_t version) {
  // 130101 means 13.1.1. Version 12 uses the same formula.
  return std::to_string(version / 10000) + "." + std::to_string(version / 100 % 100) + "." +
         std::to_string(version % 100);
}

}  // namespace

LibraryProducts::LibraryProducts(const CublasLt& library)
    : library_(library), name_("cuBLASLt " + version_text(library.GetVersion())) {}

LibraryProducts::~LibraryProducts() {
  for (auto& [shape, call] : calls_) {
    for (const LtLayout layout : {call.weights, call.tokens, call.products}) {
      if (layout != nullptr) library_.MatrixLayoutDestroy(layout);
    }
  }
  if (preference_ != nullptr) library_.MatmulPreferenceDestroy(preference_);
  if (product_ != nullptr) library_.MatmulDescDestroy(product_);
  if (handle_ != nullptr) library_.Destroy(handle_);
}

std::variant<std::unique_ptr<LibraryProducts>, std::string> LibraryProducts::start() {
  const std::variant<CublasLt, std::string>& found = find_cublaslt();
  if (const std::string* why = std::get_if<std::string>(&found)) return *why;
  std::unique_ptr<LibraryProducts> made(new LibraryProducts(std::get<CublasLt>(found)));
  made->compute_major_ = device_attribute(cudaDevAttrComputeCapabilityMajor);
  try {
    made->require(made->library_.Create(&made->handle_), "starting");
    made->require(made->library_.MatmulDescCreate(&made->product_, kLtComputeF32, kLtF32),
                  "describing a product");
    for (const auto& [attribute, value] :
         {std::pair(kLtTransposeA, kLtTransposed), std::pair(kLtTransposeB, kLtNotTransposed)}) {
      made->require(made->library_.MatmulDescSetAttribute(made->product_, attribute, &value, sizeof value),
                    "describing a product");
    }
    made->make_preference();
  } catch (const LibraryError& error) {
    return std::string(error.what());
  }
  return made;
}

void LibraryProducts::make_preference() {
  require(library_.MatmulPreferenceCreate(&preference_), "describing its algorithms");
  const auto set = [this](int attribute, auto value) {
    require(library_.MatmulPreferenceSetAttribute(preference_, attribute, &value, sizeof value),
            "describing its algorithms");
  };
  set(kLtMaxWorkspaceBytes, uint64_t{0});
  set(kLtReductionSchemes, kLtNoReduction);
  for (const int matrix : {kLtAlignmentA, kLtAlignmentB, kLtAlignmentC, kLtAlignmentD})
    set(matrix, kAlignment);
}

void LibraryProducts::require(LtStatus status, const char* doing) const {
  if (status == kLtSuccess) return;
  throw LibraryError(name_ + " failed while " + doing + ": " + library_.GetStatusString(status) + ".");
}

LtLayout LibraryProducts::make_layout(LibraryType type, int64_t n_rows, int64_t n_cols, int64_t stride) {
  LtLayout layout = nullptr;
  require(library_.MatrixLayoutCreate(&layout, library_number(type), static_cast<uint64_t>(n_rows),
                                      static_cast<uint64_t>(n_cols), stride),
          "describing a matrix");
  return layout;
}

/// Reads an attribute of an algorithm. Returns false if the library does not report it.
template <class T>
bool LibraryProducts::read_config(const LtAlgorithm& algorithm, int attribute, T& value) const {
  size_t n_written = 0;
  return library_.MatmulAlgoConfigGetAttribute(&algorithm, attribute, &value, sizeof value, &n_written) ==
         kLtSuccess;
}

/// Chooses the fastest algorithm that computes each sum without splitting it. preference_ tells the library
/// to return only such algorithms. The properties of the returned algorithms are checked nevertheless.
bool LibraryProducts::find_algorithm(Call& call) {
  std::array<LtHeuristicResult, kCandidates> results{};
  int n = 0;
  const LtStatus status =
      library_.MatmulAlgoGetHeuristic(handle_, product_, call.weights, call.tokens, call.products,
                                      call.products, preference_, kCandidates, results.data(), &n);
  if (status != kLtSuccess) return false;
  for (const LtHeuristicResult& result : std::span(results).first(static_cast<size_t>(n))) {
    int n_splits = 0;
    uint32_t reduction = 0;
    if (result.status != kLtSuccess || result.workspace_bytes != 0) continue;
    const bool known = read_config(result.algorithm, kLtConfigSplitK, n_splits) &&
                       read_config(result.algorithm, kLtConfigReduction, reduction);
    if (!known || n_splits > 1 || reduction != kLtNoReduction) continue;
    call.algorithm = result.algorithm;
    return true;
  }
  return false;
}

const LibraryProducts::Call& LibraryProducts::call_of(const Shape& shape) {
  const auto [known, is_new] = calls_.try_emplace(shape);
  Call& call = known->second;
  if (!is_new) return call;
  const auto& [type, n_rows, n_cols, stride] = shape;
  try {
    call.weights = make_layout(type, n_cols, n_rows, stride);
    call.tokens = make_layout(type, n_cols, kLibraryTokens, n_cols);
    call.products = make_layout(LibraryType::kF32, n_rows, kLibraryTokens, products_stride(n_rows));
    call.usable = find_algorithm(call);
  } catch (...) {
    for (const LtLayout layout : {call.weights, call.tokens, call.products}) {
      if (layout != nullptr) library_.MatrixLayoutDestroy(layout);
    }
    calls_.erase(known);
    throw;
  }
  return call;
}

namespace {

/// One piece of a matrix: rows [first, first + n_rows).
struct Piece {
  int64_t first = 0, n_rows = 0;
};

template <class Use>
bool for_each_piece(const Matrix& weight, Use&& use) {
  const int64_t most = library_piece_rows(weight.n_rows, weight.n_cols);
  for (int64_t first = 0; first < weight.n_rows; first += most) {
    if (!use(Piece{first, std::min(most, weight.n_rows - first)})) return false;
  }
  return true;
}

/// Returns the number of elements from one row to the next in the matrix that the library reads.
int64_t stride_of(const Matrix& weight) {
  if (uses_quantized_activations(weight.dtype)) return weight.n_cols;
  return static_cast<int64_t>(weight.stride_bytes() / library_bytes(type_of(weight)));
}

}  // namespace

bool LibraryProducts::takes(const Matrix& weight, const LibraryScratch& scratch) {
  constexpr int64_t kColumns = 8;  // 16 bytes of f16, so that every token and every row is aligned
  if (weight.n_cols == 0 || weight.n_cols % kColumns != 0 || weight.n_rows == 0) return false;
  const int64_t piece_rows = library_piece_rows(weight.n_rows, weight.n_cols);
  if (weight.n_cols > scratch.max_cols || products_stride(piece_rows) > scratch.max_rows) return false;
  if (uses_quantized_activations(weight.dtype)) {
    if (piece_rows * weight.n_cols > scratch.max_weights) return false;
  } else if (reinterpret_cast<uintptr_t>(weight.data) % kAlignment != 0 ||
             weight.stride_bytes() % kAlignment != 0) {
    return false;
  }
  if (weight.dtype == DType::kBF16 && compute_major_ < 8) return false;
  return for_each_piece(weight, [&](const Piece& piece) {
    return call_of({type_of(weight), piece.n_rows, weight.n_cols, stride_of(weight)}).usable;
  });
}

void LibraryProducts::multiply(const float* x, int n_tokens, std::span<const Product> products,
                               const LibraryScratch& scratch, cudaStream_t stream) {
  const int n_packed = LibraryScratch::packed_tokens(n_tokens);
  std::optional<LibraryType> packed_as;
  for (const Product& product : products) {
    const Matrix& weight = product.weight;
    const LibraryType type = type_of(weight);
    if (packed_as != type) {
      pack_tokens(x, n_tokens, n_packed, weight.n_cols, type, scratch.tokens, scratch.unscale, stream);
      packed_as = type;
    }
    const bool quantized = uses_quantized_activations(weight.dtype);
    for_each_piece(weight, [&](const Piece& piece) {
      const Call& call = call_of({type, piece.n_rows, weight.n_cols, stride_of(weight)});
      assert(call.usable);
      const void* rows = weight.row(piece.first);
      if (quantized) {
        decode_rows(weight, piece.first, piece.n_rows, scratch.weights, stream);
        rows = scratch.weights;
      }
      for (int t = 0; t < n_tokens; t += kLibraryTokens) {
        const auto skipped =
            static_cast<size_t>(t) * static_cast<size_t>(weight.n_cols) * library_bytes(type);
        const float one = 1.0f, zero = 0.0f;
        require(library_.Matmul(handle_, product_, &one, rows, call.weights,
                                static_cast<const std::byte*>(scratch.tokens) + skipped, call.tokens, &zero,
                                scratch.products, call.products, scratch.products, call.products,
                                &call.algorithm, nullptr, 0, stream),
                "multiplying a prompt's tokens");
        store_results({.products = scratch.products,
                       .stride = products_stride(piece.n_rows),
                       .unscale = scratch.unscale + t,
                       .n_tokens = std::min(kLibraryTokens, n_tokens - t),
                       .n_rows = piece.n_rows,
                       .bias = product.bias == nullptr ? nullptr : product.bias + piece.first,
                       .out = product.out + t * product.out_stride + piece.first,
                       .out_stride = product.out_stride,
                       .accumulate = product.accumulate},
                      stream);
      }
      return true;
    });
    simulate_product(
        {.weight = weight, .n_tokens = n_tokens, .out = product.out, .out_stride = product.out_stride});
  }
}

}  // namespace hearth::cuda
