// The byte bound: the time of a token if reading its bytes were its only cost, on a CPU alone or with a GPU.
//
// It covers dense offloading and the hot/cold split of PowerInfer (SOSP'24):
//
//   T      = (W_a + P + KV) / B_vram + max(rho c W_f / B_vram, rho (1-c) W_f / B_cold) + W_cpu / B_ram
//   B_cold = min(B_ram, eta B_cpu + B_pcie)
//
// W_a: attention and output. P: predictors, and gates that are read whole. KV: keys and values. rho W_f: the
// rows of active neurons; the device has the share c of them. The GPU and the CPU (with PCIe's help) read
// their shares at the same time. PCIe copies from the same RAM, so both together are no faster than RAM.
// W_cpu: layers that the CPU runs whole while the device waits. The bound is about bytes, so it leaves out
// the time to synchronize, sets eta (the CPU's loss from gathering rows) to 1, and sets B_cpu to B_ram, the
// measured rate of the CPU's threads. Then B_cold is B_ram, or min(B_ram, B_pcie) if the CPU has no share.
#pragma once

#include "engine/residency/token_bytes.h"

namespace hearth {

/// Measured, in bytes per second.
struct MachineBandwidth {
  double ram = 0;
  double vram = 0, pcie = 0;  // 0 if the CPU computes alone
};

/// The T above, in seconds, with keys and values among the bytes. device_whole is W_a + P + KV,
/// device_neurons is rho c W_f, cold_neurons is rho (1-c) W_f, host_whole is W_cpu. cpu_share: the CPU
/// computes cold neurons; otherwise they go over PCIe. REQUIRES: a bandwidth above 0 for every memory that is
/// read.
double least_seconds(const TokenBytes& bytes, const MachineBandwidth& bandwidth, bool cpu_share);

}  // namespace hearth
