// What work on a GPU takes besides its bytes and its arithmetic: one table, from which both the simulation and the plan
// count.
//
// A machine's profile has rates that copies and long runs of one trivial kernel reach. A model's kernels reach less: small
// ones wait for their own chains of loads, large ones need a while until all multiprocessors read. The table has, for each class of
// kernels (kernels/cuda/ops/kernel_work.h), what it takes to start one, and which part of the rates it reaches. None of it was
// measured on a GPU: each entry was counted from the compiled kernels or from other engines' figures, and says so.
//
// A measurement replaces entries: `hearth-profiler bench --kernels --json` times each kernel, and
// tests/profiler/simulation/measured_kernels_test.cpp compares its classes with this table, wherever tests/data/measured has one.
//
// Plain values; any thread.
#pragma once

#include "kernels/cuda/ops/kernel_work.h"
#include "profiler/machine/machine_profile.h"

namespace hearth {

/// An entry of the table: of kernels of one class on any GPU.
struct KernelCost {
  double start_s;     // from the end of the kernel before, to its own end if it reads and computes nothing
  double vram_share;  // of the rate at which copies within the device's memory read and write
  double multiprocessor_bytes;     // that a multiprocessor takes a clock, at most; 0: it is no limit
  double multiply_adds_share = 1;  // of the profile's multiply_adds_per_s, which is Q4_0's
};
const KernelCost& kernel_cost(cuda::KernelClass kind);

/// What kernels of each class take on this GPU. Where the table's starts are shorter than the profile's launch_s, launch_s
/// counts: a profile says how long a kernel takes at least, and never that a kernel is shorter than its class.
cuda::KernelSpeeds kernel_speeds(const GpuProfile& gpu);

/// Instructions a second that kernels reach: they also wait and load. Where the profile has no rate, so many that they are no
/// bound.
double reached_instructions_per_s(const GpuProfile& gpu);

/// Of the link's rate, what a kernel reaches that reads the host's rows of two to four kilobytes one by one; copies of
/// contiguous memory, which profiles have, reach all of it.
inline constexpr double kGatherShare = 0.88;

/// Seconds of the host's calls of CUDA's runtime, and between host and device.
struct CallCosts {
  // A plain launch takes two to three microseconds of a core; a graph of two kernels 3.5, and one of the 15 to 28 kernels
  // between two hand-overs five to six (NVIDIA, "Constant Time Launch for Straight-Line CUDA Graphs", 2024: 2.5 and
  // little more for each node; more on processors slower than theirs).
  double launch = 2e-6, graph = 5.5e-6, graph_of_two = 3.5e-6;
  double wait = 5e-6;  // until a call that waits returns, from the end of the work it waits for
  // Until the host sees a word that the device stored: a fence of the whole system, two atomic operations and a posted write
  // over PCIe, each some hundred nanoseconds.
  double visible = 2.5e-6;
  // Of a decoding step on a GPU, what is no part of the forward pass: the next token from its logits, and the scheduler.
  double step = 60e-6;
};
inline constexpr CallCosts kCallCosts;

/// Seconds from the end of a call that launches into an idle stream to the start of the first kernel's start_s: what a
/// profile's round trip has besides its other parts, a graph of two kernels and the host's seeing what they stored.
double first_kernel_s(const GpuProfile& gpu);

/// Seconds from the end of a kernel that hands over to the host, to the start of the first kernel's start_s that the host launches
/// then, if the host does nothing else; copied bytes come on top.
double hand_over_s(const GpuProfile& gpu);

/// Seconds of a decoding step that are in no layer: the wait for the logits, and kCallCosts.step; the logits' bytes come on top.
double step_s(const GpuProfile& gpu);

}  // namespace hearth
