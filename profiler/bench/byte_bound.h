// Computes the byte bound: how long a token would take if its only cost were reading bytes. The bound covers
// a CPU alone and a CPU with a GPU.
//
// With a GPU, it covers dense offloading and PowerInfer's split into hot and cold neurons (SOSP'24):
//
//   T      = (W_a + P + KV) / B_vram + max(rho c W_f / B_vram, rho (1-c) W_f / B_cold) + W_cpu / B_ram
//   B_cold = min(B_ram, eta B_cpu + B_pcie)
//
//   W_a    bytes of attention and of the output matrix
//   P      bytes of predictors, and of gate matrices that are read completely
//   KV     bytes of keys and values
//   W_f    bytes of all neurons' rows
//   rho    share of neurons that are active
//   c      share of the active neurons that are on the device
//   W_cpu  bytes of layers that the CPU runs completely while the device waits
//   eta    factor by which gathering scattered rows slows the CPU down, taken as 1
//   B_cpu  rate at which the CPU's threads read, taken as B_ram
//
// The GPU reads its neurons while the CPU reads the cold neurons. Part of the cold neurons may instead be
// copied to the GPU over PCIe. These copies also read the RAM, so B_cold is at most B_ram. With the values
// that are taken for eta and B_cpu, B_cold is B_ram. If the CPU computes no cold neurons, B_cold is
// min(B_ram, B_pcie). The bound omits the time to synchronize.
#pragma once

#include "engine/residency/token_bytes.h"

namespace hearth {

/// Measured, in bytes per second.
struct MachineBandwidth {
  double ram = 0;
  double vram = 0, pcie = 0;  // 0 if the CPU computes alone
};

/// Returns T of the formula at the top of this file, in seconds. In `bytes`, device_whole is W_a + P + KV,
/// device_neurons is rho c W_f, cold_neurons is rho (1-c) W_f, and host_whole is W_cpu, which includes the
/// keys and values of its layers. cpu_share: whether the CPU computes cold neurons; otherwise they go to the
/// GPU over PCIe. REQUIRES: every memory that is read has a bandwidth above 0.
double least_seconds(const TokenBytes& bytes, const MachineBandwidth& bandwidth, bool cpu_share);

}  // namespace hearth
