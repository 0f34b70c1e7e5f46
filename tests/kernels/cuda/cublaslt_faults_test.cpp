// cuBLASLt is missing, does not start, has no algorithm or fails: each case is reported, and no resource
// leaks.
#include "kernels/cuda/cuda_backend.h"
#include "kernels/cuda/matmul/cublaslt_products.h"
#include "tests/kernels/cuda/device_array.h"
#include "tests/support/catch.h"
#include "tests/support/cudaemu/control.h"

namespace hearth::test {
namespace {

using cuda::LibraryProducts;

std::string why_not() {
  auto made = LibraryProducts::start();
  const std::string* why = std::get_if<std::string>(&made);
  return why == nullptr ? "" : *why;
}

TEST_CASE("a missing library is not an error") {
  const cudaemu::Config before = cudaemu::config();
  CHECK(cuda::why_no_prompt_library().empty());
  cudaemu::config().has_cublaslt = false;
  CHECK_FALSE(cuda::why_no_prompt_library().empty());
  CHECK(why_not() == cuda::why_no_prompt_library());
  cudaemu::config() = before;
  CHECK(why_not().empty());
}

TEST_CASE("a library that does not start says why") {
  for (const char* name : {"cublasLtCreate", "cublasLtMatmulDescCreate", "cublasLtMatmulDescSetAttribute",
                           "cublasLtMatmulPreferenceCreate", "cublasLtMatmulPreferenceSetAttribute"}) {
    INFO(name);
    cudaemu::fail_next(name, 0, cudaErrorUnknown);
    CHECK(why_not().starts_with("cuBLASLt 13.1.0 failed while "));
    CHECK(why_not().empty());
  }
}

/// A small product on the device.
struct SmallProduct {
  DeviceArray<std::byte> weights{std::vector<std::byte>(16 * 64 * 2)};
  DeviceArray<float> x{std::vector<float>(64, 1.0f)}, out{16}, tokens{128 * 64}, unscale{128},
      products{128 * 16};
  Matrix matrix{weights.data(), DType::kF16, 16, 64};
  cuda::LibraryScratch scratch{.max_cols = 64,
                               .max_rows = 16,
                               .max_weights = 0,
                               .tokens = tokens.data(),
                               .unscale = unscale.data(),
                               .products = products.data()};

  void run(LibraryProducts& library, const TestStream& stream) const {
    library.multiply(x.data(), 1, std::array{Product{.weight = matrix, .out = out.data(), .out_stride = 16}},
                     scratch, stream);
  }
};

TEST_CASE("a library is not used for a shape it has no algorithm for, and is used for others") {
  const SmallProduct small;
  const auto library = std::get<std::unique_ptr<LibraryProducts>>(LibraryProducts::start());
  cudaemu::fail_next("cublasLtMatmulAlgoGetHeuristic", 0, cudaErrorUnknown);
  CHECK_FALSE(library->takes(small.matrix, small.scratch));
  CHECK_FALSE(library->takes(small.matrix, small.scratch));
  Matrix other = small.matrix;
  other.n_rows = 8;
  CHECK(library->takes(other, small.scratch));
}

TEST_CASE("a product that fails in a library is reported in a sentence") {
  const SmallProduct small;
  const TestStream stream;
  const auto library = std::get<std::unique_ptr<LibraryProducts>>(LibraryProducts::start());
  REQUIRE(library->takes(small.matrix, small.scratch));
  cudaemu::fail_next("cublasLtMatmul", 0, cudaErrorUnknown);
  CHECK_THROWS_WITH(small.run(*library, stream),
                    ContainsSubstring("cuBLASLt 13.1.0 failed while multiplying a prompt's tokens: "));
  small.run(*library, stream);
  CHECK(small.out.read(stream) == std::vector<float>(16, 0.0f));
}

TEST_CASE("a layout that could not be made is requested again") {
  const SmallProduct small;
  const auto library = std::get<std::unique_ptr<LibraryProducts>>(LibraryProducts::start());
  for (int i = 0; i < 3; ++i) {
    cudaemu::fail_next("cublasLtMatrixLayoutCreate", i, cudaErrorUnknown);
    CHECK_THROWS_AS(library->takes(small.matrix, small.scratch), cuda::LibraryError);
  }
  CHECK(library->takes(small.matrix, small.scratch));
}

}  // namespace
}  // namespace hearth::test
