// Settings and counters of emulated CUDA for tests: the device's properties, the order in which threads run,
// and counts of operations.
//
// Thread-safe, except that a test may change config() only while no stream has work.
#pragma once

#include <driver_types.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "kernels/cuda/ops/kernel_work.h"

namespace hearth::cudaemu {

/// Returns whether the program runs on the emulator. For GPUs, tests are linked with no_emulator.cpp instead:
/// settings have no effect, and counts stay 0. Test cases that need settings or counts are tagged [emulated]
/// and left out.
bool is_emulated();

/// The order in which a block's threads run between two barriers, and in which independent nodes of a graph
/// run. A kernel whose result depends on the order lacks a barrier.
enum class Schedule { kForward, kReverse, kRandom };

/// The emulated machine. Defaults come from the named environment variables; the default driver is as new as
/// the runtime. Faults come from the environment too: see fail_as_told.
struct Config {
  int driver = 0;                       // newest CUDA version of the driver, for example 13000; 0: no driver
  int n_devices = 1;                    // 0 or 1 (CUDAEMU_DEVICES)
  size_t vram_bytes = size_t{8} << 30;  // (CUDAEMU_VRAM_MB)
  size_t vram_taken_bytes = 0;          // of vram_bytes, used by other processes (CUDAEMU_VRAM_TAKEN_MB)
  size_t memlock_bytes =
      SIZE_MAX;                 // the most host memory that cudaHostRegister page-locks (CUDAEMU_MEMLOCK_KB)
  int compute_capability = 80;  // 10 * major + minor (CUDAEMU_COMPUTE_CAPABILITY)
  int n_multiprocessors = 4;    // only reported: blocks run one after another
  bool has_cublaslt = true;     // whether there is a library for the products of prompts (CUDAEMU_CUBLASLT)
  size_t shared_optin_bytes = 163 << 10;   // dynamic shared memory cudaFuncSetAttribute may allow
  Schedule schedule = Schedule::kForward;  // (CUDAEMU_SCHEDULE: 0, 1, 2)
  unsigned seed = 1;                       // for Schedule::kRandom and jitter (CUDAEMU_SEED)
  int block_workers = 1;                   // OS threads that share a launch's blocks (CUDAEMU_BLOCK_WORKERS)
  int jitter_us = 0;     // longest random wait before each work of a stream (CUDAEMU_JITTER_US)
  int bus_mb_per_s = 0;  // rate of copies between host and device; 0: as fast as memory
  size_t graph_bytes =
      0;  // device memory that each graph takes from when it is made ready until it is destroyed
  size_t kernel_bytes = 0;  // device memory that each kernel takes when it is loaded: see forget_kernels()
  /// Records which pages each kernel touches, beside its declared work (take_touches). Works only for memory
  /// that was allocated while `guard` was set.
  bool count_touched = false;
  bool drops_kernels = false;  // launches succeed but kernels do nothing, as on a faulty device
  bool guard = false;          // device memory has no access rights while the device idles (CUDAEMU_GUARD)
};
Config& config();

/// Counters since the last reset_stats().
struct Stats {
  uint64_t launches = 0;        // kernels that ran, including those in graphs
  uint64_t graph_launches = 0;  // graphs that ran
  uint64_t graph_kernels = 0;   // kernels that ran in graphs; included in launches
  uint64_t h2d_bytes = 0;       // copied from host to device, counted at the call
  uint64_t d2h_bytes = 0;
  // asynchronous copies of memory that is not pinned, which are in fact synchronous
  uint64_t pageable_async = 0;
  uint64_t default_stream = 0;    // operations in the default stream, including cudaMemcpy and cudaMemset
  uint64_t allocations = 0;       // of device and pinned memory, including registrations
  uint64_t synchronizations = 0;  // times that the host waited for a stream, an event or the device
  uint64_t switches = 0;          // between fibers
  uint64_t loaded_kernels = 0;    // loaded by cudaFuncGetAttributes or their first launch
  uint64_t first_launches = 0;    // launches that were the first of their kernel
  size_t vram_used = 0;           // at present
  size_t vram_peak = 0;
  size_t pinned_used = 0;  // at present, including registered memory
  size_t registered_used = 0;
};
Stats stats();
/// Sets the counts to 0, and the peak of memory to the current use.
void reset_stats();

/// Unloads all kernels, as if none had been used yet, and frees their memory. Drivers load a kernel when it
/// is first used, and keep it until the process ends. Loading fails with cudaErrorMemoryAllocation if the
/// device lacks Config::kernel_bytes. REQUIRES: no stream has work.
void forget_kernels();

/// A kernel's declared work (kernels/cuda/ops/kernel_work.h), and the bytes of the pages of device memory
/// that it touched.
struct KernelTouch {
  std::string name;
  cuda::KernelWork work;
  size_t bytes;
};
/// The kernels that ran with Config::count_touched since the last call. Call it after synchronizing.
std::vector<KernelTouch> take_touches();

/// Makes calls of `api` fail: after n_good more calls, the next n_times calls return `error` instead of doing
/// anything. `api` is a function's name ("cudaMalloc"), or "launch" for kernel launches. Only
/// cudaStreamEndCapture still does something: it ends the capture, as on CUDA.
///
/// `api` may also be "kernel", "copy", "fill" or "host function". Then the call succeeds, and the work fails
/// when its turn comes. As with a kernel that faults, the device is lost from then on: enqueued work is not
/// run, all calls except queries of the device return `error`, and cudaGetLastError does not clear it.
void fail_next(const char* api, int n_good, cudaError_t error, int n_times = 1);

/// Calls fail_next() for each entry "API:N_GOOD:ERROR" or "API:N_GOOD:ERROR:N_TIMES" of a list separated by
/// commas; ERROR is a number. The process begins with the entries of CUDAEMU_FAIL. Throws
/// std::invalid_argument.
void fail_as_told(const std::string& faults);

/// The number of calls or runs since the last reset_stats(), failures included, of each name that fail_next()
/// accepts. Names without calls are missing.
std::map<std::string, uint64_t> call_counts();

/// Makes a lost device work again: waits for all streams, and forgets the device's error, faults that have
/// not occurred yet and the thread's last error. Memory, streams and events stay.
void repair_device();

enum class WorkKind {
  kKernel,
  kHostToDevice,
  kDeviceToHost,
  kDeviceToDevice,
  kHostToHost,
  kFill,
  kHostFunction,
};

/// The time of one operation of a stream.
struct Interval {
  WorkKind kind;
  std::string name;     // for kernels: "hearth::cuda::add_kernel"
  cudaStream_t stream;  // for a graph's work, the stream in which it was launched
  size_t n_bytes;       // for copies and fills
  std::chrono::steady_clock::time_point begin, end;

  /// Returns whether the two intervals overlap.
  bool overlaps(const Interval& other) const { return begin < other.end && other.begin < end; }
};
/// Forgets all intervals, and starts or stops recording.
void record_intervals(bool on);
/// The recorded intervals, ordered by their ends. They are complete only after synchronizing.
std::vector<Interval> intervals();

}  // namespace hearth::cudaemu
