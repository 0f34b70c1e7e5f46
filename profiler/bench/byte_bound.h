// The least time that a token can take if it cost nothing but reading its bytes, on a CPU alone or with a
// GPU.
//
// For dense offloading and for the hot/cold split of PowerInfer (SOSP'24):
//
//   T      = (W_a + P + KV) / B_vram + max(rho c W_f / B_vram, rho (1-c) W_f / B_cold) + W_cpu / B_ram
//   B_cold = min(B_ram, eta B_cpu + B_pcie)
//
// W_a: attention and output, P: predictors and gates that are read whole, KV: keys and values. rho W_f: the
// rows of active neurons, of which the device has the share c. The GPU and the CPU, with PCIe's help, read
// their shares at the same time; PCIe's copies come out of the same RAM, so both together are no faster than
// it. W_cpu: layers that the CPU runs whole, while the device waits. The time of synchronising is left out: a
// bound is of bytes. eta, what gathering rows costs the CPU, is 1 here, and B_cpu what the CPU's threads are
// measured to read, B_ram: then B_cold is B_ram, or without the CPU's share min(B_ram, B_pcie).
#pragma once

#include "engine/residency/token_bytes.h"

namespace hearth {

/// Measured, in bytes per second.
struct MachineBandwidth {
  double ram = 0;
  double vram = 0, pcie = 0;  // 0 where the CPU computes alone
};

/// Seconds, T above, of bytes that include keys and values: device_whole is W_a + P + KV, device_neurons rho
/// c W_f, cold_neurons rho (1-c) W_f, host_whole W_cpu. cpu_share: the CPU computes cold neurons; else they
/// go over PCIe. REQUIRES: bandwidths above 0 of what is read.
double least_seconds(const TokenBytes& bytes, const MachineBandwidth& bandwidth, bool cpu_share);

}  // namespace hearth
