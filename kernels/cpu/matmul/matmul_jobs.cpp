// Implements MatmulJobs: cuts products into units, and units into pieces.
#include "kernels/cpu/matmul/matmul_jobs.h"

#include <algorithm>

namespace hearth {
namespace {

// Weight bytes of the smallest and the largest piece. At 10 GB/s, a core reads 16 KiB in 1.6 microseconds,
// much longer than the atomic operation that takes a piece. Large pieces are faster, because the first strips
// of a piece are not prefetched in time: for one token, 512 KiB were 5 % faster than 128 KiB.
constexpr int64_t kMinPieceBytes = 16 * 1024;
constexpr int64_t kMaxPieceBytes = 512 * 1024;
// Units of work per thread. The last pieces are one unit each. So with 8 units per thread, the other threads
// wait for at most an eighth of a delayed thread's work. Cores of unequal speed need smaller units. In a
// product of 2 MiB, 16 units per thread take 11 % longer than 8.
constexpr int64_t kUnitsPerThread = 8;
constexpr int64_t kUnitsPerUnequalThread = 32;
// A piece's rows are a multiple of this many, because the kernels compute this many rows at once, and half as
// many for one token.
constexpr int64_t kRowMultiple = 32;
constexpr int64_t kRowMultipleOfOne = 16;
// With one token, if an equal share of the work is at most this many bytes, each thread takes its share as
// one piece. In the first microseconds of every piece, a thread waits for memory that was not prefetched. For
// a share of 100 KiB, this wait is a quarter of the time.
constexpr int64_t kMaxShareBytes = 1024 * 1024;
// The fewest tokens of a piece: each piece unpacks its weights again, which costs as much as a few tokens do.
constexpr int64_t kMinPieceTokens = 64;
// The number of multiply-adds that a core computes while it reads one byte of weights: it computes 80
// multiply-adds and reads 10 bytes per nanosecond.
constexpr int64_t kProductsPerByte = 8;

int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

int64_t n_rows(const Product& p) {
  return p.rows.data() != nullptr ? static_cast<int64_t>(p.rows.size()) : p.weight.n_rows;
}

int64_t bytes_of_row(const Matrix& weight) {
  return std::max<int64_t>(1, static_cast<int64_t>(row_bytes(weight.dtype, weight.n_cols)));
}

/// The cost of one row of the job: its bytes, multiplied by the time that it takes for the job's tokens,
/// relative to the time for fewest_tokens tokens (the fewest of any job).
int64_t cost_of_row(const MatmulJob& job, int64_t fewest_tokens) {
  const Matrix& weight = job.product.weight;
  const int64_t bytes = bytes_of_row(weight);
  if (job.n_tokens == fewest_tokens) return bytes;
  const auto time = [&](int64_t n_tokens) { return bytes + weight.n_cols * n_tokens / kProductsPerByte; };
  return bytes * time(job.n_tokens) / time(fewest_tokens);
}

struct Cut {
  int64_t n_units = 0;
  int64_t most_units = 0;  // per piece
  bool in_shares = false;  // one piece for each thread
};

/// Numbers the units job by job, and within a job by token part, so that a piece of adjacent units is a range
/// of rows.
Cut cut(std::span<MatmulJob> jobs, const ThreadPool& pool) {
  const int64_t n_wanted =
      pool.n_threads() * (pool.speeds_differ() ? kUnitsPerUnequalThread : kUnitsPerThread);
  const auto [fewest, most] = std::ranges::minmax_element(jobs, {}, &MatmulJob::n_tokens);
  const int64_t fewest_tokens = fewest->n_tokens;
  int64_t total_cost = 0;
  for (const MatmulJob& job : jobs) total_cost += n_rows(job.product) * cost_of_row(job, fewest_tokens);
  Cut c;
  c.in_shares =
      most->n_tokens == 1 && total_cost <= pool.n_threads() * kMaxShareBytes && !pool.speeds_differ();
  const int64_t unit_cost =
      c.in_shares ? 1 : std::clamp(total_cost / n_wanted, kMinPieceBytes, kMaxPieceBytes);
  const int64_t row_multiple = c.in_shares ? kRowMultipleOfOne : kRowMultiple;
  c.most_units = kMaxPieceBytes / unit_cost;
  int64_t n_row_units = 0;
  for (MatmulJob& job : jobs) {
    const int64_t rows = ceil_div(unit_cost, cost_of_row(job, fewest_tokens));
    job.rows_per_unit = ceil_div(rows, row_multiple) * row_multiple;
    job.row_units = ceil_div(n_rows(job.product), job.rows_per_unit);
    n_row_units += job.row_units;
  }
  // If matrices are small and there are many tokens and threads, units of rows alone are too few. Then the
  // tokens are divided as well.
  const int64_t wanted_parts = ceil_div(n_wanted, std::max<int64_t>(1, n_row_units));
  for (MatmulJob& job : jobs) {
    const int64_t most_parts = std::max<int64_t>(1, job.n_tokens / kMinPieceTokens);
    job.part_tokens = ceil_div(job.n_tokens, std::clamp<int64_t>(wanted_parts, 1, most_parts));
    job.first_unit = c.n_units;
    c.n_units += job.row_units * ceil_div(job.n_tokens, job.part_tokens);
  }
  return c;
}

}  // namespace

void MatmulJobs::run(std::span<MatmulJob> jobs) {
  if (jobs.empty()) return;
  const Cut c = cut(jobs, pool_);
  const auto multiply_units = [&](int64_t begin, int64_t end, int) {
    const auto later = [](int64_t unit, const MatmulJob& job) { return unit < job.first_unit; };
    auto job =
        std::upper_bound(jobs.begin(), jobs.end(), begin, later) - 1;  // the job that unit `begin` belongs to
    for (; job != jobs.end() && job->first_unit < end; ++job) {
      multiply(*job, begin - job->first_unit, end - job->first_unit);
    }
  };
  if (c.in_shares) {
    pool_.for_each_part(c.n_units, multiply_units);
  } else {
    pool_.for_each_shrinking_piece(c.n_units, c.most_units, multiply_units);
  }
}

/// Computes the job's units [begin, end), counted from the job's first unit. The range may extend beyond the
/// job.
void MatmulJobs::multiply(const MatmulJob& job, int64_t begin, int64_t end) const {
  int64_t unit = 0;  // the part's first unit
  for (int64_t token = 0; token < job.n_tokens; token += job.part_tokens, unit += job.row_units) {
    const int64_t from = std::max(begin - unit, int64_t{0}), to = std::min(end - unit, job.row_units);
    if (from < to) multiply_rows(job, token, from, to);
  }
}

/// Computes the units [begin, end) of the token part that begins at token `first`.
void MatmulJobs::multiply_rows(const MatmulJob& job, int64_t first, int64_t begin, int64_t end) const {
  const Product& p = job.product;
  MatmulArgs args;
  args.weight = &p.weight;
  args.row_begin = begin * job.rows_per_unit;
  args.row_end = std::min(end * job.rows_per_unit, n_rows(p));
  args.rows = p.rows.data();
  args.bias = p.bias;
  args.out_stride = p.out_stride;
  args.accumulate = p.accumulate;
  args.large_l1 = large_l1_;
  args.n_tokens = static_cast<int>(std::min(job.part_tokens, job.n_tokens - first));
  args.x = job.x == nullptr ? nullptr : job.x + first * p.weight.n_cols;
  if (job.quantized != nullptr) {
    args.quantized =
        job.quantized + static_cast<size_t>(first) * activation_row_bytes(p.weight.n_cols, bits_);
  }
  args.out = p.out + first * p.out_stride;
  kernels_.multiply[static_cast<size_t>(p.weight.dtype)](args);
}

}  // namespace hearth
