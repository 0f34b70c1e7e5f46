// Page-locks the host memory from which a device copies in long steps: the layers that the device does not
// hold, and in the device's layers the experts that it does not hold. Page-locked memory is copied at the
// full speed of the bus. Called once, while a model is loaded.
#pragma once

#include <span>

#include "engine/forward/kv_memory.h"
#include "engine/model/devices.h"
#include "engine/model/weights.h"
#include "kernels/experts.h"

namespace hearth {

/// Page-locks the matrices, keys and values of the layers that the device does not hold. Returns false if
/// some of this memory could not be page-locked; such memory is copied more slowly. The memory must outlive
/// the device.
bool pin_streamed_layers(const Devices& devices, const Weights& weights, const KvMemory& kv);

/// Like pin_streamed_layers(), but page-locks all experts of some layers. If an expert has down columns,
/// which must be packed (kernels/quant/coded_columns.h), locks these instead of its down matrix.
bool pin_experts(ComputeDevice& device, std::span<const std::span<const Expert>> layers);

}  // namespace hearth
