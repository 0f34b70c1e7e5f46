// See the header.
#include "engine/residency/device_answer.h"

#include <algorithm>
#include <stdexcept>
#include <variant>

#include "engine/residency/bytes_text.h"
#include "kernels/cuda/runtime/device.h"

namespace hearth {
namespace {

/// What a budget of "auto" leaves: recorded graphs and kernels' own needs grow while the engine runs.
constexpr uint64_t kLeftFree = uint64_t{256} << 20;
constexpr double kLeftShare = 0.03;

}  // namespace

DeviceAnswer choose_device(const LoadOptions& options) {
  DeviceAnswer answer;
  if (options.device == DeviceChoice::kCpu) return answer;
  const bool insists = options.device == DeviceChoice::kCuda;
  const std::variant<cuda::Device, std::string> found = cuda::probe();
  if (const std::string* reason = std::get_if<std::string>(&found)) {
    if (insists) {
      throw std::invalid_argument("--device cuda was asked for, but there is no GPU that can be used: " +
                                  *reason + "; take --device auto or cpu.");
    }
    return answer;
  }
  if (options.sparsity.mode == "calibrated") {
    const std::string why = "--sparsity calibrated runs on the CPU only";
    if (insists) throw std::invalid_argument(why + "; take --device auto or cpu.");
    answer.notes.push_back(why + ": the GPU is not used");
    return answer;
  }
  const cuda::Device& device = std::get<cuda::Device>(found);
  answer.usable = true;
  answer.name = device.name;
  answer.free_bytes = cuda::free_bytes(device);
  const uint64_t left =
      std::max(kLeftFree, static_cast<uint64_t>(kLeftShare * static_cast<double>(answer.free_bytes)));
  const uint64_t usable = answer.free_bytes - std::min(answer.free_bytes, left);
  answer.budget_bytes = options.vram_budget_bytes.value_or(usable);
  if (answer.budget_bytes > answer.free_bytes) {
    answer.notes.push_back("the GPU has " + bytes_text(static_cast<double>(answer.free_bytes)) + " free, " +
                           bytes_text(static_cast<double>(answer.budget_bytes - answer.free_bytes)) +
                           " less than --vram-budget: the plan is made for what is left");
    answer.budget_bytes = usable;
  }
  return answer;
}

}  // namespace hearth
