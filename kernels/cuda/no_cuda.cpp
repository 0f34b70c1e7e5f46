// kernels/cuda in a build without CUDA: there is no GPU.
#include "kernels/cuda/device.h"

namespace hearth::cuda {

std::variant<Device, std::string> probe() { return "built without CUDA"; }

uint64_t free_bytes(const Device& /*device*/) { return 0; }

}  // namespace hearth::cuda
