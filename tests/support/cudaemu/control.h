// What a test sets and reads of emulated CUDA: the device's properties, the order threads run in, counts of
// what was done.
//
// Safe to call from any thread, except that a test changes config() only while no stream has work.
#pragma once

#include <driver_types.h>

#include <cstddef>
#include <cstdint>

namespace hearth::cudaemu {

/// The order in which the threads of a block run between two barriers, and independent nodes of a graph. A
/// kernel whose result depends on it lacks a barrier.
enum class Schedule { kForward, kReverse, kRandom };

/// The emulated device. Defaults come from the environment where a name is given; the driver
/// is as new as the runtime.
struct Config {
  size_t vram_bytes = size_t{8} << 30;  // CUDAEMU_VRAM_MB
  int compute_capability = 80;          // CUDAEMU_COMPUTE_CAPABILITY: 10 * major + minor
  int n_devices = 1;                    // 0 or 1
  int driver = 0;                       // the newest CUDA it runs, as 13000; 0: there is none
  int n_multiprocessors = 4;            // reported only: blocks run one after another
  size_t shared_optin_bytes =
      163 << 10;  // dynamic shared memory a kernel may ask for, by cudaFuncSetAttribute
  Schedule schedule = Schedule::kForward;  // CUDAEMU_SCHEDULE: 0, 1, 2
  unsigned seed = 1;                       // CUDAEMU_SEED: of Schedule::kRandom and of jitter
  int block_workers = 1;  // CUDAEMU_BLOCK_WORKERS: OS threads that share the blocks of one launch
  int jitter_us = 0;      // CUDAEMU_JITTER_US: longest random wait before each operation of a stream
  bool guard = false;     // CUDAEMU_GUARD: device memory has no access rights while the device idles
};
Config& config();

/// Counts since the last reset_stats().
struct Stats {
  uint64_t launches = 0;        // kernels that ran, those of graphs included
  uint64_t graph_launches = 0;  // graphs that ran
  uint64_t h2d_bytes = 0;       // copied from host to device, counted when asked for
  uint64_t d2h_bytes = 0;
  uint64_t pageable_async = 0;  // asynchronous copies of memory that is not pinned: they are not asynchronous
  uint64_t switches = 0;        // between fibers
  size_t vram_used = 0;         // now
  size_t vram_peak = 0;
};
Stats stats();
/// Sets the counts to 0, and the peak of memory to what is used now.
void reset_stats();

/// The call of `api` ("cudaMalloc"; "launch" for kernel launches) after the next `n_good` ones returns
/// `error` instead of doing anything.
void fail_next(const char* api, int n_good, cudaError_t error);

}  // namespace hearth::cudaemu
