// Layers in host memory that a device computes in long steps: their memory is page-locked, so that they are
// copied at the speed of the bus. Called once, while a model is loaded.
#pragma once

#include "engine/forward/kv_memory.h"
#include "engine/model/devices.h"
#include "engine/model/weights.h"

namespace hearth {

/// Page-locks the matrices, keys and values of the layers that the device does not hold. Returns whether all
/// of it was granted; the rest is copied more slowly. The memory must outlive the device.
bool pin_streamed_layers(const Devices& devices, const Weights& weights, const KvMemory& kv);

}  // namespace hearth
