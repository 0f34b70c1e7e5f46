// Products computed together, each with its own tokens: every output is written once, with the bits that its
// kernel gives for the whole product, on any number of threads.
#include "kernels/cpu/matmul/matmul_jobs.h"

#include <cstring>
#include <random>
#include <vector>

#include "kernels/cpu/cpu_backend.h"
#include "tests/kernels/weight_rows.h"
#include "tests/support/catch.h"

namespace hearth::test {
namespace {

struct JobShape {
  DType type;
  int64_t n_rows, n_cols;
  int n_tokens;
};

/// A job with its own memory, and the kernel's result for the whole product.
class Job {
 public:
  Job(const JobShape& shape, Isa isa, std::mt19937& rng)
      : shape_(shape),
        matrix_(random_matrix(shape.type, shape.n_rows, shape.n_cols, rng)),
        x_(random_activations(shape.n_tokens * shape.n_cols, rng)),
        expected_(static_cast<size_t>(shape.n_tokens * shape.n_rows)),
        out_(expected_.size()) {
    const MatmulKernels& kernels = matmul_kernels(isa);
    const size_t row_bytes = activation_row_bytes(shape.n_cols);
    quantized_.resize(row_bytes * static_cast<size_t>(shape.n_tokens) + 64);
    for (int t = 0; uses_quantized_activations(shape.type) && t < shape.n_tokens; ++t) {
      kernels.quantize(x_.data() + t * shape.n_cols, shape.n_cols,
                       rows() + static_cast<size_t>(t) * row_bytes);
    }
    MatmulArgs args;
    args.weight = &matrix_.view;
    args.row_end = shape.n_rows;
    args.x = x_.data();
    args.quantized = rows();
    args.n_tokens = shape.n_tokens;
    args.out = expected_.data();
    args.out_stride = shape.n_rows;
    kernels.multiply[static_cast<size_t>(shape.type)](args);
  }

  /// The job adds to outputs that are zero, so that anything computed twice is noticed.
  MatmulJob job() {
    std::fill(out_.begin(), out_.end(), 0.0f);
    MatmulJob job;
    job.product = {matrix_.view, nullptr, out_.data(), shape_.n_rows, true};
    job.x = x_.data();
    job.quantized = rows();
    job.n_tokens = shape_.n_tokens;
    return job;
  }
  bool is_right() const { return out_ == expected_; }

 private:
  std::byte* rows() {
    return quantized_.data() + (64 - reinterpret_cast<uintptr_t>(quantized_.data()) % 64) % 64;
  }

  JobShape shape_;
  OwnedMatrix matrix_;
  std::vector<float> x_;
  std::vector<std::byte> quantized_;  // and padding to align it to 64 bytes
  std::vector<float> expected_, out_;
};

void check(const std::vector<JobShape>& shapes) {
  const Isa isa = supported_isas().front();
  std::mt19937 rng(1);
  std::vector<Job> jobs;
  jobs.reserve(shapes.size());
  for (const JobShape& shape : shapes) jobs.emplace_back(shape, isa, rng);
  for (const int n_threads : {1, 2, 3, 5, 16}) {
    ThreadPool pool(n_threads);
    MatmulJobs products(pool, matmul_kernels(isa), ActivationBits::k15, false);
    std::vector<MatmulJob> list;
    for (Job& job : jobs) list.push_back(job.job());
    products.run(list);
    for (size_t i = 0; i < jobs.size(); ++i) {
      INFO(n_threads << " threads, job " << i);
      CHECK(jobs[i].is_right());
    }
  }
}

}  // namespace

TEST_CASE("matmul jobs: no jobs and products without rows are allowed", "[matmul_jobs]") {
  check({});
  check({{DType::kQ8_0, 0, 64, 1}});
  check({{DType::kQ8_0, 0, 64, 2}, {DType::kQ8_0, 40, 64, 2}, {DType::kF32, 0, 64, 2}});
}

TEST_CASE("matmul jobs: products of one token are right, in shares and in pieces", "[matmul_jobs]") {
  check({{DType::kQ8_0, 17, 256, 1}, {DType::kQ4_0, 100, 512, 1}, {DType::kF32, 33, 64, 1}});
  check({{DType::kQ8_0, 2000, 2048, 1}, {DType::kQ4_0, 3000, 2048, 1}, {DType::kF16, 1500, 512, 1}});
}

TEST_CASE("matmul jobs: products of unequal numbers of tokens are right", "[matmul_jobs]") {
  check({{DType::kQ4_0, 96, 512, 1}, {DType::kQ8_0, 250, 512, 9}, {DType::kQ4_0, 96, 512, 150}});
  // There are so few rows that the tokens of some jobs are shared too.
  check({{DType::kQ4_0, 3, 4096, 700}, {DType::kF32, 1, 64, 3}, {DType::kQ8_0, 40, 1024, 129}});
}

}  // namespace hearth::test
