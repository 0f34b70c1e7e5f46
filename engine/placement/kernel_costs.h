// Costs of a GPU's work besides its bytes and its arithmetic, in one table that the simulation and the plan
// use.
//
// A machine's profile has rates that copies and long runs of one trivial kernel reach. A model's kernels
// reach less: small ones wait for their own chains of loads, large ones take a while until all
// multiprocessors read. For each class of kernels (kernels/cuda/ops/kernel_work.h) the table has the time to
// start one and the share of the rates that it reaches. Each entry says what was measured.
//
// `hearth-profiler bench --kernels --json` times each kernel, and
// tests/profiler/simulation/measured_kernels_test.cpp compares the classes with this table for each
// measurement in tests/data/measured.
//
// Plain values; any thread.
#pragma once

#include "engine/placement/machine_profile.h"
#include "kernels/cuda/ops/kernel_work.h"

namespace hearth {

/// The cost of kernels of one class on any GPU.
struct KernelCost {
  double start_s;     // from the previous kernel's end to its own end if it reads and computes nothing
  double vram_share;  // reached share of the rate of copies within the device's memory
  double multiprocessor_bytes;      // most bytes that a multiprocessor takes in a clock; 0: no limit
  double multiply_adds_share = 1;   // reached share of the profile's multiply_adds_per_s, which is Q4_0's
  double instructions_share = 0.6;  // reached share of the GPU's rate, because kernels also wait and load
};
const KernelCost& kernel_cost(cuda::KernelClass kind);

/// The speeds of each class of kernels on this GPU. If the table's start_s is shorter than the profile's
/// launch_s, launch_s is taken: a profile says how long a kernel takes at least, and cannot make it shorter
/// than its class.
cuda::KernelSpeeds kernel_speeds(const GpuProfile& gpu);

/// The share of the link's rate that a kernel reaches when it reads the host's rows of two to four kilobytes
/// one by one. Copies of contiguous memory, which profiles state, reach all of it.
double gather_share(const GpuProfile& gpu);

/// Seconds that the host's calls of the CUDA runtime take, and latencies between host and device.
struct CallCosts {
  // A plain launch takes two to three microseconds of a core; a graph of two kernels 3.5, and one of the 15
  // to 28 kernels between two hand-overs five to six (NVIDIA, "Constant Time Launch for Straight-Line CUDA
  // Graphs", 2024: 2.5 and little more for each node; more on processors slower than theirs).
  double launch = 2e-6, graph = 5.5e-6, graph_of_two = 3.5e-6;
  double wait = 5e-6;  // from the end of the awaited work until the waiting call returns
  // Until the host sees a word that the device stored: a system-wide fence, two atomic operations and a
  // posted write over PCIe, each some hundred nanoseconds.
  double visible = 2.5e-6;
  // The part of a decoding step on a GPU outside the forward pass: choosing the next token, and the
  // scheduler.
  double step = 60e-6;
};
inline constexpr CallCosts kCallCosts;

/// Seconds from the end of a call that launches into an idle stream to the start of the first kernel's
/// start_s. This is the profile's round trip less its other parts: a graph of two kernels, and the time until
/// the host sees what they stored.
double first_kernel_s(const GpuProfile& gpu);

/// Seconds from the end of a kernel that hands over to the host until the start_s of the first kernel that
/// the host launches then, if the host does nothing else. Copied bytes are extra.
double hand_over_s(const GpuProfile& gpu);

/// Seconds of a decoding step outside the layers: the wait for the logits, and kCallCosts.step. The logits'
/// bytes are extra.
double step_s(const GpuProfile& gpu);

}  // namespace hearth
