#include "tests/support/cudaemu/operation.h"

#include <atomic>
#include <chrono>
#include <mutex>
#include <thread>
#include <utility>

#include "tests/support/cudaemu/control.h"
#include "tests/support/cudaemu/errors.h"
#include "tests/support/cudaemu/memory.h"
#include "tests/support/cudaemu/order.h"
#include "tests/support/cudaemu/simulation.h"
#include "tests/support/cudaemu/symbol_name.h"

namespace hearth::cudaemu {
namespace {

using Clock = std::chrono::steady_clock;

std::atomic<bool> recording = false;
std::mutex intervals_mutex;
std::vector<Interval>& recorded() {
  static std::vector<Interval> all;
  return all;
}

std::vector<KernelTouch>& touches() {
  static std::vector<KernelTouch> all;
  return all;
}

struct Span {
  Clock::time_point begin, end;
};

void record(const Operation& operation, cudaStream_t stream, Span span) {
  std::string name = operation.kernel != nullptr ? symbol_name(operation.kernel) : std::string();
  const UnseenLock lock(intervals_mutex);
  recorded().push_back({operation.kind, std::move(name), stream, operation.n_bytes, span.begin, span.end});
}

/// The name by which fail_next() refers to running this kind of work.
const char* fault_name(WorkKind kind) {
  switch (kind) {
    case WorkKind::kKernel:
      return "kernel";
    case WorkKind::kFill:
      return "fill";
    case WorkKind::kHostFunction:
      return "host function";
    default:
      return "copy";
  }
}

/// Runs a copy no faster than Config::bus_mb_per_s, one at a time in each direction, like a copy engine.
Span run_over_bus(const Operation& operation) {
  static std::mutex directions[2];
  const std::lock_guard lock(directions[operation.kind == WorkKind::kHostToDevice]);
  const Clock::time_point begin = Clock::now();
  operation.run();
  // 1 MB/s is one byte per microsecond.
  const auto n_us = static_cast<int64_t>(operation.n_bytes) / config().bus_mb_per_s;
  std::this_thread::sleep_until(begin + std::chrono::microseconds(n_us));
  return {begin, Clock::now()};
}

Span run(const Operation& operation) {
  const DeviceAtWork scope(operation.kind != WorkKind::kHostFunction);
  const bool over_bus =
      operation.kind == WorkKind::kHostToDevice || operation.kind == WorkKind::kDeviceToHost;
  if (over_bus && config().bus_mb_per_s > 0) return run_over_bus(operation);
  const bool watched = config().count_touched && operation.work;
  if (watched) watch_pages();
  const Clock::time_point begin = Clock::now();
  operation.run();
  const Clock::time_point end = Clock::now();
  if (!watched) return {begin, end};
  const KernelTouch touch{symbol_name(operation.kernel), operation.work(), watched_bytes()};
  const UnseenLock lock(intervals_mutex);
  touches().push_back(touch);
  return {begin, end};
}

}  // namespace

std::vector<KernelTouch> take_touches() {
  const UnseenLock lock(intervals_mutex);
  return std::exchange(touches(), {});
}

void execute(const Operation& operation, cudaStream_t stream) {
  if (device_error() != cudaSuccess) return;
  if (const cudaError_t fault = take_fault(fault_name(operation.kind))) return break_device(fault);
  if (operation.kind == WorkKind::kKernel && config().drops_kernels) return;
  if (is_simulated()) return simulate(operation, stream);
  const Span span = run(operation);
  if (recording) record(operation, stream, span);
}

void record_intervals(bool on) {
  const UnseenLock lock(intervals_mutex);
  recorded().clear();
  recording = on;
}

std::vector<Interval> intervals() {
  const UnseenLock lock(intervals_mutex);
  return recorded();
}

}  // namespace hearth::cudaemu
