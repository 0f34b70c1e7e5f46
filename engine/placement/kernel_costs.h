// The costs of a GPU's work beyond the rates in a machine's profile, in one table that the simulation and the
// plan use.
//
// The rates in a machine's profile were measured with copies and with long runs of one trivial kernel. A
// model's kernels are slower: small kernels wait for chains of dependent loads, and in large kernels, some
// time passes before all multiprocessors read. For each class of kernels (kernels/cuda/ops/kernel_work.h),
// the table has the time to start one kernel and the share of the profile's rates that the kernel reaches.
// The comment of each entry lists the measurements.
//
// `hearth-profiler bench --kernels --json` times each kernel. For each machine in tests/data/measured,
// tests/profiler/simulation/measured_kernels_test.cpp compares these times with the times that follow from
// this table.
//
// Plain values; any thread.
#pragma once

#include "engine/placement/machine_profile.h"
#include "kernels/cuda/ops/kernel_work.h"

namespace hearth {

/// The cost of kernels of one class on any GPU.
struct KernelCost {
  // Time from the end of the previous kernel to the end of this one, for a kernel that neither reads nor
  // computes anything.
  double start_s;
  // The rate at which the kernel reads, as a share of the rate of copies within the device's memory.
  double vram_share;
  double multiprocessor_bytes;  // maximum bytes that a multiprocessor reads per clock; 0: no limit
  // Share of the profile's multiply_adds_per_s that the kernel reaches. (The profile's rate is that of Q4_0.)
  double multiply_adds_share = 1;
  // Share of the GPU's instructions_per_s that the kernel reaches. The rest of that rate is lost to waiting
  // and loading.
  double instructions_share = 0.6;
};
const KernelCost& kernel_cost(cuda::KernelClass kind);

/// The speeds of each class of kernels on this GPU. The time to start a kernel is the table's start_s or the
/// profile's launch_s, whichever is longer.
cuda::KernelSpeeds kernel_speeds(const GpuProfile& gpu);

/// The share of the link's rate that a kernel reaches when it reads rows of two to four kilobytes one by one
/// from host memory. Profiles contain the rates of copies of contiguous memory.
double gather_share(const GpuProfile& gpu);

/// Seconds that calls of the CUDA runtime take on the host, and latencies between host and device.
struct CallCosts {
  // Seconds for which one core is busy. A plain launch takes two to three microseconds. A graph of two
  // kernels takes 3.5 us, and a graph of the 15 to 28 kernels between two hand-overs takes five to six.
  // (NVIDIA measured 2.5 us plus a little for each node: "Constant Time Launch for Straight-Line CUDA
  // Graphs", 2024. A slower processor takes longer.)
  double launch = 2e-6, graph = 5.5e-6, graph_of_two = 3.5e-6;
  double wait = 5e-6;  // time from the end of the awaited work to the return of the waiting call
  // The latency until the host sees a word that the device stored: a system-wide fence, two atomic operations
  // and a posted write over PCIe, which take some hundred nanoseconds each.
  double visible = 2.5e-6;
  // The part of a decode step on a GPU that is outside the forward pass: choosing the next token, and the
  // scheduler.
  double step = 60e-6;
};
inline constexpr CallCosts kCallCosts;

/// Seconds from the return of a call that launches into an idle stream until the first kernel's start_s
/// begins. The profile's round trip contains this delay, the launch of a graph of two kernels, the start_s of
/// these kernels, and the time until the host sees their result. All parts except for the delay are
/// subtracted.
double first_kernel_s(const GpuProfile& gpu);

/// Seconds of a hand-over to the host, if the host does nothing but launch the next kernel: from the end of
/// the kernel that hands over until the next kernel's start_s begins. The time to copy bytes is not included.
double hand_over_s(const GpuProfile& gpu);

/// Seconds of a decode step outside the layers: the wait for the logits, and kCallCosts.step. The time to
/// copy the logits is not included.
double step_s(const GpuProfile& gpu);

}  // namespace hearth
