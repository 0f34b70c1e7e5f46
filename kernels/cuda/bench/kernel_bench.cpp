// Implements time_kernels(). Each case first runs once under a WorkMeter, which also warms it up. Then it
// runs as a graph of repetitions, each with different weights.
#include "kernels/cuda/bench/kernel_bench.h"

#include <algorithm>
#include <cmath>
#include <span>

#include "kernels/cuda/bench/kernel_cases.h"
#include "kernels/cuda/bench/timed_work.h"
#include "kernels/cuda/runtime/device_attribute.h"
#include "kernels/cuda/runtime/work_meter.h"

namespace hearth::cuda {
namespace {

// The maximum number of repetitions in a graph. Larger graphs take too long to make.
constexpr int kMostRepetitions = 200;
constexpr int kFirstRepetitions = 4;
// Limits the number of warm-up launches, because a launch may take almost no device time.
constexpr int kMostSpins = 100'000;
// A lower limit for measured times, because an emulated device may take no time.
constexpr double kLeastSeconds = 1e-9;

/// Returns the seconds that n repetitions take, in the fastest of n_runs runs.
double seconds_of(const KernelCase& what, int n, int n_runs, const Stream& stream) {
  const GraphExec graph = record(stream, [&] {
    for (int turn = 0; turn < n; ++turn) what.launch(turn, false);
  });
  launch(graph, stream);  // the first launch of a graph takes longer
  stream.wait();
  TimedEvent begin, end;
  double best = 1e30;
  for (int run = 0; run < n_runs; ++run) {
    begin.record(stream);
    launch(graph, stream);
    end.record(stream);
    stream.wait();
    best = std::min(best, end.seconds_since(begin));
  }
  return std::max(best, kLeastSeconds);
}

KernelTime time_case(const KernelCase& what, const KernelBenchOptions& options, const Stream& stream) {
  KernelTime result;
  result.kernel = what.kernel;
  result.size = what.size;
  result.type = what.type;
  result.n_tokens = what.n_tokens;
  {
    WorkMeter meter;
    what.launch(0, true);
    stream.wait();
    result.n_launches = meter.n_launches();
    result.work = meter.sum();
  }
  TimedEvent begin, end;
  begin.record(stream);
  what.launch(0, false);
  end.record(stream);
  stream.wait();
  const double once = std::max(end.seconds_since(begin), kLeastSeconds);
  // Both the short and the long run include the cost of launching a graph, which cancels in their difference.
  if (once > options.seconds) {
    result.seconds = seconds_of(what, 1, options.n_runs, stream);
    return result;
  }
  const double few = seconds_of(what, kFirstRepetitions, options.n_runs, stream);
  const int n = std::clamp(static_cast<int>(options.seconds * kFirstRepetitions / few), 2 * kFirstRepetitions,
                           kMostRepetitions);
  const double many = seconds_of(what, n, options.n_runs, stream);
  result.seconds = std::max((many - few) / (n - kFirstRepetitions), kLeastSeconds);
  return result;
}

/// Keeps the device busy for some time, so that its clocks rise as they do under sustained load. Uses the
/// "matmul" case with the most tokens, or the first case if there is no "matmul" case.
void spin_up(std::span<const KernelCase> cases, double seconds, const Stream& stream) {
  const KernelCase& busy = *std::ranges::max_element(
      cases, {}, [](const KernelCase& each) { return each.kernel == "matmul" ? each.n_tokens : 0; });
  TimedEvent begin, end;
  double spun = 0;
  // Each round launches twice as many kernels as the last, so that the device does not wait for the host.
  for (int n = 1, n_launches = 0; spun < seconds && n_launches < kMostSpins; n_launches += n, n *= 2) {
    begin.record(stream);
    for (int turn = 0; turn < n; ++turn) busy.launch(turn, false);
    end.record(stream);
    stream.wait();
    spun += std::max(end.seconds_since(begin), kLeastSeconds);
  }
}

/// Float lanes per multiprocessor (CUDA C++ Programming Guide, arithmetic instructions).
int lanes_of(int compute_major, int compute_minor) {
  return compute_major < 8 || (compute_major == 8 && compute_minor == 0) ? 64 : 128;
}

}  // namespace

std::vector<KernelTime> time_kernels(const KernelBenchOptions& options) {
  const Stream stream;
  const BenchWeights weights(options.memory_bytes, stream);
  std::vector<KernelTime> times;
  for (size_t s = 0; s < options.shapes.size(); ++s) {
    const KernelCases cases(options.shapes[s], options, weights, stream);
    if (s == 0) spin_up(cases.all(), options.spin_seconds, stream);
    for (size_t i = 0; i < cases.all().size(); ++i) {
      times.push_back(time_case(cases.all()[i], options, stream));
      times.back().shape = options.shapes[s].name;
      if (!options.progress) continue;
      const double of_shape = static_cast<double>(i + 1) / static_cast<double>(cases.all().size());
      options.progress((static_cast<double>(s) + of_shape) / static_cast<double>(options.shapes.size()));
    }
  }
  return times;
}

double instructions_per_s() {
  const int lanes = lanes_of(device_attribute(cudaDevAttrComputeCapabilityMajor),
                             device_attribute(cudaDevAttrComputeCapabilityMinor));
  const double hz = 1e3 * device_attribute(cudaDevAttrClockRate);
  return hz * device_attribute(cudaDevAttrMultiProcessorCount) * lanes;
}

}  // namespace hearth::cuda
