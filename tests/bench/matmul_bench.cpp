// Measures the speed of the matmul kernels, per ISA and type. Run by hand, not by ctest:
//   matmul_bench [--isa NAME] [--type NAME] [--cols N] [--threads N] [--megabytes N] [--density D]
//
// For each type, prints the GB/s of weights with one token, and the GOP/s (two per weight and token) with 128
// tokens, for one thread and for two. The weights take --megabytes (1000 unless told), several times the
// caches of a server. Also prints the bandwidth at which the same threads just read memory.
//
// With --density D, prints the GB/s with one token, and their share of the bandwidth at which the same
// threads just read. Measures products of all rows, and of the share D of the rows, listed at random. Rows
// are packed, or in bundles of two or three rows, such as gate, up and down of a neuron. All cases take
// turns, and figures are medians of the rounds, so that other load on the machine slows all cases alike.
//
// Times are the busiest thread's CPU time. On a quiet machine, this is wall time. On a busy machine, it omits
// the time that other programs take from the cores, but not from the memory.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "kernels/cpu/threads/topology.h"
#include "tests/kernels/matmul_run.h"
#include "tests/kernels/weight_rows.h"

namespace {

using namespace hearth;

struct Options {
  std::string isa, type;
  int64_t n_cols = 4096;
  int max_threads = 2;
  ActivationBits bits = ActivationBits::k15;
  double megabytes = 1000;
  double density = 0;  // share of listed rows; 0 prints the table of all rows
};

double thread_seconds() {
  timespec now;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

// Seconds of work(part, n_parts) on n_threads threads: the slowest part's CPU time, the best of `runs`.
double best_seconds(int n_threads, int runs, const std::function<void(int, int)>& work) {
  double best = 1e30;
  for (int run = 0; run < runs; ++run) {
    std::vector<double> seconds(static_cast<size_t>(n_threads));
    std::vector<std::thread> threads;
    for (int part = 0; part < n_threads; ++part) {
      threads.emplace_back([&, part] {
        const double begin = thread_seconds();
        work(part, n_threads);
        seconds[static_cast<size_t>(part)] = thread_seconds() - begin;
      });
    }
    for (std::thread& thread : threads) thread.join();
    best = std::min(best, *std::max_element(seconds.begin(), seconds.end()));
  }
  return best;
}

// Plain reading: the exclusive or of all words, which compilers turn into vector loads. Reads at eight
// positions in turn, because a single stream keeps too few reads under way.
double read_bandwidth(const std::vector<std::byte>& bytes, int n_threads, int runs) {
  constexpr size_t kStreams = 8;
  const size_t n = bytes.size() / 64 / (kStreams * static_cast<size_t>(n_threads));  // lines of a stream
  const uint64_t* words = reinterpret_cast<const uint64_t*>(bytes.data());
  std::vector<uint64_t> sinks(static_cast<size_t>(n_threads) * 8);
  const double seconds = best_seconds(n_threads, runs, [&](int part, int) {
    uint64_t sum[8] = {};
    const uint64_t* own = words + static_cast<size_t>(part) * kStreams * n * 8;
    for (size_t i = 0; i < n; ++i) {
      for (size_t stream = 0; stream < kStreams; ++stream) {
        for (size_t k = 0; k < 8; ++k) sum[k] ^= own[(stream * n + i) * 8 + k];
      }
    }
    for (uint64_t s : sum) sinks[static_cast<size_t>(part) * 8] ^= s;
  });
  return static_cast<double>(n * 64 * kStreams * static_cast<size_t>(n_threads)) / seconds;
}

// Weights of `type`, n_rows x n_cols. One random block is repeated, because only the speed of its bytes
// matters.
test::OwnedMatrix big_matrix(DType type, int64_t n_rows, int64_t n_cols) {
  std::mt19937 rng(1);
  test::OwnedMatrix row = test::random_matrix(type, 1, n_cols, rng);
  test::OwnedMatrix matrix;
  for (int64_t r = 0; r < n_rows; ++r)
    matrix.bytes.insert(matrix.bytes.end(), row.bytes.begin(), row.bytes.end());
  matrix.view = {matrix.bytes.data(), type, n_rows, n_cols};
  return matrix;
}

// `rows`: the listed rows, or null for all.
double multiply_seconds(Isa isa, ActivationBits bits, const Matrix& weight, const std::vector<int32_t>* rows,
                        int n_tokens, int n_threads, int runs) {
  const MatmulKernels& kernels = matmul_kernels(isa, bits);
  std::mt19937 rng(2);
  const std::vector<float> x = test::random_activations(n_tokens * weight.n_cols, rng);
  const bool quantize = uses_quantized_activations(weight.dtype);
  const bool large_l1 = l1_is_large(fast_cpus(allowed_cpus()));
  test::QuantizedRows quantized(kernels, x, quantize ? n_tokens : 0, weight.n_cols, bits);
  std::vector<float> out(static_cast<size_t>(n_tokens * weight.n_rows));
  return best_seconds(n_threads, runs, [&](int part, int parts) {
    MatmulArgs args;
    args.weight = &weight;
    const int64_t n = rows != nullptr ? static_cast<int64_t>(rows->size()) : weight.n_rows;
    args.rows = rows != nullptr ? rows->data() : nullptr;
    args.row_begin = n / 16 * part / parts * 16;
    args.row_end = n / 16 * (part + 1) / parts * 16;
    args.x = x.data();
    args.quantized = quantize ? quantized.row(0) : nullptr;
    args.n_tokens = n_tokens;
    args.out = out.data();
    args.out_stride = weight.n_rows;
    args.large_l1 = large_l1;
    kernels.multiply[static_cast<size_t>(weight.dtype)](args);
  });
}

// The number of rows that together take about --megabytes.
int64_t decode_rows(DType type, const Options& options) {
  const auto bytes = static_cast<int64_t>(row_bytes(type, options.n_cols));
  return std::max<int64_t>(static_cast<int64_t>(options.megabytes * 1e6) / bytes / 64 * 64, 64);
}

void bench_type(Isa isa, DType type, const Options& options) {
  constexpr int64_t kPrefillRows = 512;
  constexpr int kPrefillTokens = 128;
  const test::OwnedMatrix big = big_matrix(type, decode_rows(type, options), options.n_cols);
  const test::OwnedMatrix small = big_matrix(type, kPrefillRows, options.n_cols);
  const int decode_runs = isa == Isa::kScalar ? 1 : 8;
  const int prefill_runs = isa == Isa::kScalar ? 1 : 5;
  std::printf("%-12s %-7s", std::string(isa_name(isa)).c_str(), std::string(dtype_info(type).name).c_str());
  for (int threads = 1; threads <= options.max_threads; ++threads) {
    const double seconds = multiply_seconds(isa, options.bits, big.view, nullptr, 1, threads, decode_runs);
    std::printf(" %8.1f", static_cast<double>(big.bytes.size()) / seconds * 1e-9);
  }
  for (int threads = 1; threads <= options.max_threads; ++threads) {
    const double seconds =
        multiply_seconds(isa, options.bits, small.view, nullptr, kPrefillTokens, threads, prefill_runs);
    const double operations = 2.0 * static_cast<double>(kPrefillRows * options.n_cols) * kPrefillTokens;
    std::printf(" %8.1f", operations / seconds * 1e-9);
  }
  std::printf("\n");
  std::fflush(stdout);
}

double median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + static_cast<int64_t>(values.size() / 2), values.end());
  return values[values.size() / 2];
}

// Every `bundle`-th row of a matrix, as if it were one of several matrices whose rows lie in bundles.
Matrix bundled(const Matrix& all, int bundle) {
  Matrix weight = all;
  weight.n_rows = all.n_rows / bundle;
  weight.row_stride = all.stride_bytes() * static_cast<size_t>(bundle);
  return weight;
}

std::vector<int32_t> random_list(int64_t n_rows, double density) {
  std::mt19937 rng(3);
  std::bernoulli_distribution listed(density);
  std::vector<int32_t> rows;
  for (int32_t r = 0; r < n_rows; ++r) {
    if (listed(rng)) rows.push_back(r);
  }
  return rows;
}

void bench_listed(Isa isa, DType type, const Options& options) {
  constexpr int kRounds = 9;
  const test::OwnedMatrix all = big_matrix(type, decode_rows(type, options), options.n_cols);
  for (int threads = 1; threads <= options.max_threads; ++threads) {
    std::vector<double> speed[4], share[4];  // all rows; listed: packed, in bundles of two, of three
    for (int round = 0; round < kRounds; ++round) {
      const double read = read_bandwidth(all.bytes, threads, 1);
      for (int layout = 0; layout < 4; ++layout) {
        const Matrix weight = bundled(all.view, std::max(1, layout));
        const std::vector<int32_t> rows = random_list(weight.n_rows, options.density);
        const double seconds =
            multiply_seconds(isa, options.bits, weight, layout == 0 ? nullptr : &rows, 1, threads, 1);
        const auto n = static_cast<double>(layout == 0 ? weight.n_rows : static_cast<int64_t>(rows.size()));
        speed[layout].push_back(n * static_cast<double>(row_bytes(type, options.n_cols)) / seconds);
        share[layout].push_back(speed[layout].back() / read);
      }
    }
    std::printf("%-12s %-7s %7d", std::string(isa_name(isa)).c_str(),
                std::string(dtype_info(type).name).c_str(), threads);
    for (int layout = 0; layout < 4; ++layout) {
      std::printf("  %5.1f GB/s %4.0f %%", median(speed[layout]) * 1e-9, median(share[layout]) * 100);
    }
    std::printf("\n");
    std::fflush(stdout);
  }
}

void print_titles(const Options& options) {
  if (options.density > 0) {
    std::printf("%-12s %-7s threads  %-17s %-17s %-17s %s\n", "isa", "type", "all rows", "listed", "in twos",
                "in threes");
    return;
  }
  std::printf("%-12s %-7s", "isa", "type");
  for (int threads = 1; threads <= options.max_threads; ++threads) std::printf("  GB/s x%d", threads);
  for (int threads = 1; threads <= options.max_threads; ++threads) std::printf(" GOP/s x%d", threads);
  std::printf("\n");
}

Options parse(int argc, char** argv) {
  Options options;
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string name = argv[i];
    if (name == "--isa") options.isa = argv[i + 1];
    if (name == "--type") options.type = argv[i + 1];
    if (name == "--activation-bits" && std::atoi(argv[i + 1]) == 8) options.bits = ActivationBits::k8;
    if (name == "--cols") options.n_cols = std::atoll(argv[i + 1]);
    if (name == "--density") options.density = std::atof(argv[i + 1]);
    if (name == "--megabytes") options.megabytes = std::atof(argv[i + 1]);
    if (name == "--threads") options.max_threads = std::max(1, std::atoi(argv[i + 1]));
  }
  return options;
}

}  // namespace

int main(int argc, char** argv) {
  const Options options = parse(argc, argv);
  {
    const std::vector<std::byte> bytes(static_cast<size_t>(options.megabytes * 1e6), std::byte{1});
    for (int threads = 1; threads <= options.max_threads; ++threads) {
      std::printf("read bandwidth, %d threads: %.1f GB/s\n", threads,
                  read_bandwidth(bytes, threads, 8) * 1e-9);
    }
  }
  print_titles(options);
  for (Isa isa : supported_isas()) {
    if (!options.isa.empty() && options.isa != isa_name(isa)) continue;
    for (DType type : test::all_types()) {
      if (!options.type.empty() && options.type != dtype_info(type).name) continue;
      if (options.n_cols % dtype_info(type).block_elems != 0) continue;
      options.density > 0 ? bench_listed(isa, type, options) : bench_type(isa, type, options);
    }
  }
  return 0;
}
