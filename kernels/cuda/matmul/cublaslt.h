// The part of NVIDIA's cuBLASLt library that Hearth calls. It is loaded at run time, without NVIDIA's headers
// and without linking, so the program also runs on machines that do not have the library.
//
// Types, constants and sizes are from cublasLt.h 13.1, and are the same in version 12.
// tests/kernels/cuda/cublaslt_test.cpp compares them with the header if the header is installed.
// cublaslt_products.cpp makes the calls. Tests on the emulator replace cublaslt.cpp with their own library
// (tests/support/cudaemu/cublaslt.cpp).
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <variant>

namespace hearth::cuda {

using LtHandle = struct LtHandleOpaque*;
using LtMatmulDesc = struct LtMatmulDescOpaque*;
using LtLayout = struct LtLayoutOpaque*;
using LtPreference = struct LtPreferenceOpaque*;

using LtStatus = int;
inline constexpr LtStatus kLtSuccess = 0, kLtNotInitialized = 1, kLtInvalidValue = 7, kLtExecutionFailed = 13,
                          kLtNotSupported = 15;

// cudaDataType
inline constexpr int kLtF32 = 0, kLtF16 = 2, kLtBF16 = 14;
// cublasComputeType_t: products and sums are in F32. 16-bit and F32 inputs are used as they are, not rounded
// to TF32.
inline constexpr int kLtComputeF32 = 68;
// cublasOperation_t
inline constexpr int kLtNotTransposed = 0, kLtTransposed = 1;
// cublasLtMatmulDescAttributes_t
inline constexpr int kLtTransposeA = 3, kLtTransposeB = 4;
// cublasLtMatmulPreferenceAttributes_t
inline constexpr int kLtMaxWorkspaceBytes = 1, kLtReductionSchemes = 3, kLtAlignmentA = 5, kLtAlignmentB = 6,
                     kLtAlignmentC = 7, kLtAlignmentD = 8;
// cublasLtReductionScheme_t
inline constexpr uint32_t kLtNoReduction = 0;
// cublasLtMatmulAlgoConfigAttributes_t
inline constexpr int kLtConfigSplitK = 2, kLtConfigReduction = 3;

/// cublasLtMatmulAlgo_t
struct LtAlgorithm {
  uint64_t data[8];
};

/// cublasLtMatmulHeuristicResult_t
struct LtHeuristicResult {
  LtAlgorithm algorithm;
  size_t workspace_bytes;
  LtStatus status;
  float n_waves;
  int reserved[4];
};

/// The library's functions, named without their prefix "cublasLt". All may be called from any thread.
struct CublasLt {
  size_t (*GetVersion)();
  const char* (*GetStatusString)(LtStatus);
  LtStatus (*Create)(LtHandle*);
  LtStatus (*Destroy)(LtHandle);
  LtStatus (*MatmulDescCreate)(LtMatmulDesc*, int compute_type, int scale_type);
  LtStatus (*MatmulDescDestroy)(LtMatmulDesc);
  LtStatus (*MatmulDescSetAttribute)(LtMatmulDesc, int attribute, const void* value, size_t bytes);
  LtStatus (*MatrixLayoutCreate)(LtLayout*, int type, uint64_t n_rows, uint64_t n_cols, int64_t stride);
  LtStatus (*MatrixLayoutDestroy)(LtLayout);
  LtStatus (*MatmulPreferenceCreate)(LtPreference*);
  LtStatus (*MatmulPreferenceDestroy)(LtPreference);
  LtStatus (*MatmulPreferenceSetAttribute)(LtPreference, int attribute, const void* value, size_t bytes);
  LtStatus (*MatmulAlgoGetHeuristic)(LtHandle, LtMatmulDesc, LtLayout a, LtLayout b, LtLayout c, LtLayout d,
                                     LtPreference, int n_wanted, LtHeuristicResult* results, int* n_found);
  LtStatus (*MatmulAlgoConfigGetAttribute)(const LtAlgorithm*, int attribute, void* value, size_t bytes,
                                           size_t* bytes_written);
  LtStatus (*Matmul)(LtHandle, LtMatmulDesc, const void* alpha, const void* a, LtLayout, const void* b,
                     LtLayout, const void* beta, const void* c, LtLayout, void* d, LtLayout,
                     const LtAlgorithm*, void* workspace, size_t workspace_bytes, cudaStream_t);
};

/// Returns the library, or a phrase with the reason why there is none, such as "libcublasLt.so.13: cannot
/// open shared object file". The first call loads the library, which may take some tenths of a second. The
/// library stays loaded. Uses no device. Thread-safe.
const std::variant<CublasLt, std::string>& find_cublaslt();

}  // namespace hearth::cuda
