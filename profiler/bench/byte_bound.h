// Computes the byte bound: how long a token would take if its only cost were reading bytes. The bound covers
// a CPU alone and a CPU with a GPU.
//
// With a GPU, it covers dense offloading and PowerInfer's split into hot and cold neurons (SOSP'24):
//
//   T      = (W_a + P + KV) / B_vram + max(rho c W_f / B_vram, rho (1-c) W_f / B_cold) + W_cpu / B_ram
//   B_cold = min(B_ram, eta B_cpu + B_pcie)
//
// W_a are the bytes of attention and of the output matrix, P those of predictors and of gate matrices that
// are read completely, KV those of keys and values. W_f are the bytes of all neurons' rows. The share rho of
// these is active, and the share c of the active ones is on the device. The GPU and the CPU read their shares
// at the same time, and part of the CPU's share may be copied to the GPU over PCIe. PCIe copies from the same
// RAM, so the CPU and PCIe together are no faster than RAM. W_cpu are the bytes of layers that the CPU runs
// completely while the device waits. The bound counts only bytes, so it omits the time to synchronize. eta,
// the factor by which gathering scattered rows slows the CPU down, is taken as 1. B_cpu is taken as B_ram,
// the measured rate of the CPU's threads. B_cold is then B_ram, or min(B_ram, B_pcie) if the CPU computes no
// cold neurons.
#pragma once

#include "engine/residency/token_bytes.h"

namespace hearth {

/// Measured, in bytes per second.
struct MachineBandwidth {
  double ram = 0;
  double vram = 0, pcie = 0;  // 0 if the CPU computes alone
};

/// Returns the T above, in seconds. In `bytes`, device_whole is W_a + P + KV, device_neurons is rho c W_f,
/// cold_neurons is rho (1-c) W_f, and host_whole is W_cpu, which includes the keys and values of its layers.
/// cpu_share: whether the CPU computes cold neurons; otherwise they go to the GPU over PCIe. REQUIRES: every
/// memory that is read has a bandwidth above 0.
double least_seconds(const TokenBytes& bytes, const MachineBandwidth& bandwidth, bool cpu_share);

}  // namespace hearth
