// The benchmark of single kernels: it times every kernel and compares it with its declared work.
#include "kernels/cuda/bench/kernel_bench.h"

#include <algorithm>
#include <set>
#include <stdexcept>

#include "kernels/cuda/runtime/work_meter.h"
#include "tests/support/catch.h"
#include "tests/support/cudaemu/control.h"

namespace hearth::cuda {
namespace {

constexpr int64_t kModel = 128, kNeurons = 192;

KernelBenchOptions small_options() {
  KernelBenchOptions options;
  options.shapes = {{"small", kModel, kNeurons, 4, 2, 32}};
  options.types = {DType::kQ4_0, DType::kF16, DType::kMXFP4,
                   DType::kQ4_K};  // K-blocks have 256 columns, which this shape lacks
  options.n_prompt = 20;
  options.context = 40;
  options.active = 0.25;
  options.memory_bytes = size_t{1} << 20;
  options.seconds = 0;  // once
  options.n_runs = 1;
  options.spin_seconds = 0;
  return options;
}

const KernelTime& find(const std::vector<KernelTime>& times, const std::string& kernel,
                       const std::string& type, int n_tokens) {
  const auto found = std::ranges::find_if(times, [&](const KernelTime& time) {
    return time.kernel == kernel && time.type == type && time.n_tokens == n_tokens;
  });
  INFO(kernel << " " << type << " " << n_tokens);
  REQUIRE(found != times.end());
  return *found;
}

TEST_CASE("kernels are timed one by one, and listed with the work they declare") {
  KernelBenchOptions options = small_options();
  std::vector<double> fractions;
  options.progress = [&](double fraction) { fractions.push_back(fraction); };
  cudaemu::reset_stats();
  const std::vector<KernelTime> times = time_kernels(options);
  CHECK(cudaemu::stats().vram_used == 0);
  CHECK(cudaemu::stats().pinned_used == 0);
  CHECK(WorkMeter::current() == nullptr);
  std::set<std::string> kernels, types;
  for (const KernelTime& time : times) {
    INFO(time.kernel << " " << time.size << " " << time.type);
    CHECK(time.seconds > 0);
    CHECK(time.n_launches >= 1);
    CHECK(time.work.bytes + time.work.host_reads > 0);
    CHECK(time.shape == "small");
    kernels.insert(time.kernel);
    types.insert(time.type);
  }
  CHECK(kernels == std::set<std::string>{"add",
                                         "add_down",
                                         "attention",
                                         "causal_conv",
                                         "delta_gates",
                                         "end_sums",
                                         "gated_activation",
                                         "gated_delta",
                                         "gather_bundles",
                                         "hand_over",
                                         "keep_passed",
                                         "kv_append",
                                         "layer_norm",
                                         "list_bits",
                                         "matmul",
                                         "matmul of listed rows",
                                         "multiply_heads",
                                         "neuron_values",
                                         "quantize",
                                         "rms_norm",
                                         "rope",
                                         "select_neurons",
                                         "split_set"});
  CHECK(types == std::set<std::string>{"", "F16", "Q4_0"});
  CHECK(std::ranges::is_sorted(fractions));
  CHECK(fractions.size() == times.size());
  CHECK(fractions.back() == 1.0);

  // Check the declared bytes: those of a whole matrix with 4.5 bits per weight, and those of a quarter of its
  // rows. Then check the declared multiply-adds of a prompt.
  const double matrix = kModel * kNeurons * 4.5 / 8;
  CHECK(find(times, "matmul", "Q4_0", 1).work.bytes > matrix);
  CHECK(find(times, "matmul", "Q4_0", 1).work.bytes < 1.3 * matrix);
  const double listed = find(times, "matmul of listed rows", "Q4_0", 1).work.bytes;
  CHECK(listed > matrix / 4);
  CHECK(listed < matrix / 2);
  // 20 tokens are computed as a tile of 64.
  CHECK(find(times, "matmul", "Q4_0", 20).work.multiply_adds == 64.0 * kModel * kNeurons);
  CHECK(find(times, "multiply_heads", "Q4_0", 1).n_launches == 1);
  CHECK(find(times, "multiply_heads", "Q4_0", 20).n_launches == 2);
  CHECK(find(times, "multiply_heads", "F16", 20).n_launches == 1);
  CHECK(find(times, "select_neurons", "", 1).n_launches == 1);
  CHECK(find(times, "split_set", "", 1).n_launches == 2);
  // As many neurons are found as are active.
  CHECK(find(times, "add_down", "Q4_0", 1).work.bytes < matrix);
  CHECK(find(times, "attention", "", 1).work.bytes > 2.0 * 40 * 2 * 32 * 2);
  CHECK(find(times, "gather_bundles", "", 1).work.host_reads > 0);
  // Four heads of 32 dimensions: the state is read and written, whatever the number of tokens.
  const double state = 4.0 * 32 * 32 * 4;
  const double decoding = find(times, "gated_delta", "", 1).work.bytes,
               prompt = find(times, "gated_delta", "", 20).work.bytes;
  CHECK(decoding > 2 * state);
  CHECK(decoding < 2.2 * state);
  CHECK(prompt - decoding == 19 * 2.0 * 4 * (64 + 128 + 4));
  CHECK(find(times, "causal_conv", "", 20).n_launches == 1);
}

TEST_CASE("before kernels are timed the device multiplies a prompt for the requested time") {
  KernelBenchOptions options = small_options();
  options.types = {DType::kQ4_0};
  const auto n_products = [&](double spin_seconds) {
    options.spin_seconds = spin_seconds;
    cudaemu::record_intervals(true);
    time_kernels(options);
    const std::vector<cudaemu::Interval> all = cudaemu::intervals();
    cudaemu::record_intervals(false);
    return std::ranges::count_if(all, [](const cudaemu::Interval& interval) {
      return interval.name.find("many_kernel") != std::string::npos;
    });
  };
  const auto without = n_products(0);
  REQUIRE(without > 0);
  CHECK(n_products(1e-9) == without + 1);  // one tick of the clock: one launch
  CHECK(n_products(0.05) > without);
}

TEST_CASE("an exception from progress ends a benchmark of kernels") {
  KernelBenchOptions options = small_options();
  options.types = {DType::kQ8_0};
  options.progress = [](double) { throw std::runtime_error("enough"); };
  cudaemu::reset_stats();
  CHECK_THROWS_WITH(time_kernels(options), "enough");
  CHECK(cudaemu::stats().vram_used == 0);
  CHECK(WorkMeter::current() == nullptr);
}

TEST_CASE("a benchmark of kernels uses less memory if less is free, and times what fits") {
  const cudaemu::Config before = cudaemu::config();
  cudaemu::config().vram_bytes = size_t{24} << 20;
  KernelBenchOptions options = small_options();
  options.types = {DType::kQ8_0};
  options.memory_bytes = size_t{1} << 30;
  CHECK(!time_kernels(options).empty());
  cudaemu::config() = before;
}

TEST_CASE("the rate of instructions comes from the device's own properties") {
  const cudaemu::Config before = cudaemu::config();
  cudaemu::config().n_multiprocessors = 10;
  cudaemu::config().compute_capability = 89;
  CHECK(instructions_per_s() == 10 * 128 * 1e9);
  cudaemu::config().compute_capability = 75;
  CHECK(instructions_per_s() == 10 * 64 * 1e9);
  cudaemu::config() = before;
}

}  // namespace
}  // namespace hearth::cuda
