// The table of cuBLASLt's functions compared with NVIDIA's header and with the library, each if it is
// installed.
#include "kernels/cuda/matmul/cublaslt.h"

#include <cstddef>

#include "tests/support/catch.h"
#include "tests/support/skip.h"

#if __has_include(<cublasLt.h>)
#include <cublasLt.h>

namespace hearth::cuda {

static_assert(sizeof(LtAlgorithm) == sizeof(cublasLtMatmulAlgo_t));
static_assert(sizeof(LtHeuristicResult) == sizeof(cublasLtMatmulHeuristicResult_t));
static_assert(offsetof(LtHeuristicResult, algorithm) == offsetof(cublasLtMatmulHeuristicResult_t, algo));
static_assert(offsetof(LtHeuristicResult, workspace_bytes) ==
              offsetof(cublasLtMatmulHeuristicResult_t, workspaceSize));
static_assert(offsetof(LtHeuristicResult, status) == offsetof(cublasLtMatmulHeuristicResult_t, state));
static_assert(offsetof(LtHeuristicResult, n_waves) == offsetof(cublasLtMatmulHeuristicResult_t, wavesCount));
// Enumerations are passed as ints.
static_assert(sizeof(cublasStatus_t) == sizeof(int) && sizeof(cudaDataType) == sizeof(int) &&
              sizeof(cublasComputeType_t) == sizeof(int) &&
              sizeof(cublasLtMatmulDescAttributes_t) == sizeof(int) &&
              sizeof(cublasLtMatmulPreferenceAttributes_t) == sizeof(int) &&
              sizeof(cublasLtMatmulAlgoConfigAttributes_t) == sizeof(int));
static_assert(kLtSuccess == CUBLAS_STATUS_SUCCESS && kLtNotInitialized == CUBLAS_STATUS_NOT_INITIALIZED &&
              kLtInvalidValue == CUBLAS_STATUS_INVALID_VALUE &&
              kLtExecutionFailed == CUBLAS_STATUS_EXECUTION_FAILED &&
              kLtNotSupported == CUBLAS_STATUS_NOT_SUPPORTED);
static_assert(kLtF32 == CUDA_R_32F && kLtF16 == CUDA_R_16F && kLtBF16 == CUDA_R_16BF);
static_assert(kLtComputeF32 == CUBLAS_COMPUTE_32F);
static_assert(kLtNotTransposed == CUBLAS_OP_N && kLtTransposed == CUBLAS_OP_T);
static_assert(kLtTransposeA == CUBLASLT_MATMUL_DESC_TRANSA && kLtTransposeB == CUBLASLT_MATMUL_DESC_TRANSB);
static_assert(kLtMaxWorkspaceBytes == CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES &&
              kLtReductionSchemes == CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK &&
              kLtAlignmentA == CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES &&
              kLtAlignmentB == CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES &&
              kLtAlignmentC == CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES &&
              kLtAlignmentD == CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES);
static_assert(kLtNoReduction == CUBLASLT_REDUCTION_SCHEME_NONE);
static_assert(kLtConfigSplitK == CUBLASLT_ALGO_CONFIG_SPLITK_NUM &&
              kLtConfigReduction == CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME);

}  // namespace hearth::cuda
#endif

namespace hearth::cuda {
namespace {

TEST_CASE("cuBLASLt is found with all its functions, or a phrase says why not") {
  const std::variant<CublasLt, std::string>& found = find_cublaslt();
  if (const std::string* why = std::get_if<std::string>(&found)) {
    return testing::skip("cuBLASLt is not installed: " + *why);
  }
  CHECK(&found == &find_cublaslt());
  const CublasLt& library = std::get<CublasLt>(found);
  CHECK(library.GetVersion() >= 110000);
  CHECK(std::string(library.GetStatusString(kLtInvalidValue)).size() > 5);
  // Creating descriptions needs no device.
  LtMatmulDesc desc = nullptr;
  REQUIRE(library.MatmulDescCreate(&desc, kLtComputeF32, kLtF32) == kLtSuccess);
  const int32_t transposed = kLtTransposed;
  CHECK(library.MatmulDescSetAttribute(desc, kLtTransposeA, &transposed, sizeof transposed) == kLtSuccess);
  CHECK(library.MatmulDescSetAttribute(desc, kLtTransposeA, &transposed, 1) == kLtInvalidValue);
  CHECK(library.MatmulDescDestroy(desc) == kLtSuccess);
  LtLayout layout = nullptr;
  REQUIRE(library.MatrixLayoutCreate(&layout, kLtF16, 64, 128, 64) == kLtSuccess);
  CHECK(library.MatrixLayoutDestroy(layout) == kLtSuccess);
  LtPreference preference = nullptr;
  REQUIRE(library.MatmulPreferenceCreate(&preference) == kLtSuccess);
  const uint64_t workspace = 0;
  CHECK(library.MatmulPreferenceSetAttribute(preference, kLtMaxWorkspaceBytes, &workspace,
                                             sizeof workspace) == kLtSuccess);
  for (const int attribute :
       {kLtReductionSchemes, kLtAlignmentA, kLtAlignmentB, kLtAlignmentC, kLtAlignmentD}) {
    const uint32_t value = attribute == kLtReductionSchemes ? kLtNoReduction : 16;
    INFO("attribute " << attribute);
    CHECK(library.MatmulPreferenceSetAttribute(preference, attribute, &value, sizeof value) == kLtSuccess);
  }
  CHECK(library.MatmulPreferenceDestroy(preference) == kLtSuccess);
}

}  // namespace
}  // namespace hearth::cuda
