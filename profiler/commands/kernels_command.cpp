// Implements `bench --kernels`: finds the GPU and the shapes, measures, and prints the report.
#include "profiler/commands/kernels_command.h"

#include <algorithm>
#include <cctype>
#include <cstddef>
#include <optional>
#include <stdexcept>
#include <variant>

#include "config/environment.h"
#include "kernels/base/virtual_time.h"
#include "kernels/cuda/bench/kernel_bench.h"
#include "kernels/cuda/ops/device_types.h"
#include "kernels/cuda/ops/simulated_device.h"
#include "kernels/cuda/runtime/device.h"
#include "profiler/bench/kernel_report.h"
#include "profiler/commands/simulate_command.h"
#include "profiler/machine/known_machine.h"
#include "profiler/machine/shipped_machines.h"
#include "profiler/options/terminal.h"
#include "profiler/simulation/simulation.h"
#include "profiler/synthesis/shapes.h"

namespace hearth {
namespace {

constexpr size_t kMostMemory = size_t{1} << 30;

std::vector<DType> types_of(const std::string& name) {
  std::vector<DType> types;
  for (int i = 0; i < kDTypeCount; ++i) {
    const auto type = static_cast<DType>(i);
    std::string lower(dtype_info(type).name);
    std::ranges::transform(lower, lower.begin(),
                           [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    if (cuda::device_has(type) && (name.empty() || name == lower)) types.push_back(type);
  }
  if (types.empty())
    throw std::runtime_error("--type " + name + ": the GPU's kernels have no weights of this type.");
  return types;
}

std::vector<cuda::KernelShape> shapes_of(const std::vector<std::string>& names) {
  std::vector<cuda::KernelShape> shapes;
  for (const std::string& name : names) {
    const ModelShape* const shape = find_shape(name);
    if (shape == nullptr)
      throw std::runtime_error("There is no shape \"" + name + "\", expected one of " + shape_names() + ".");
    shapes.push_back({.name = name,
                      .d_model = shape->d_model,
                      .d_ff = shape->d_ff,
                      .n_heads = shape->n_heads,
                      .n_kv_heads = shape->n_kv_heads,
                      .head_dim = shape->head_dim()});
  }
  return shapes;
}

/// Returns this machine's GPU profile from the kept machine profile, or measures and keeps it. If the profile
/// has no instruction rate, computes it from the GPU's clock and its number of multiprocessors.
GpuProfile measured_gpu() {
  const std::variant<cuda::Device, std::string> found = cuda::probe();
  if (const std::string* reason = std::get_if<std::string>(&found)) {
    throw std::runtime_error("bench --kernels needs a GPU, and there is none that can be used (" + *reason +
                             "); --simulate NAME computes the times of another one.");
  }
  ProgressLine line("Measuring the machine");
  const std::optional<KnownMachine> known = known_machine(
      process_environment(), /*fresh=*/false,
      {.progress = [&line](double fraction, std::string_view what) { line.update(fraction, what); },
       .stop = {}});
  if (!known || !known->machine.gpu)
    throw std::runtime_error(
        "bench --kernels: the GPU could not be measured; hearth-profiler probe --fresh says why.");
  GpuProfile gpu = *known->machine.gpu;
  if (gpu.instructions_per_s == 0) gpu.instructions_per_s = cuda::instructions_per_s();
  return gpu;
}

}  // namespace

int run_kernels_command(const KernelsCommand& command) {
  const bool simulated = !command.machine.empty();
  if (simulated && !can_simulate()) run_simulator();
  cuda::KernelBenchOptions options;
  options.shapes = shapes_of(command.shapes.empty() ? std::vector<std::string>{"7b", "70b"} : command.shapes);
  options.types = types_of(command.type);
  options.n_prompt = command.n_prompt;
  options.context = std::max(options.context, command.n_prompt);
  options.n_runs = command.n_runs;
  // Give the repetitions so much memory, which they use in turn, that data of a repetition has left all
  // caches when it is used again.
  options.memory_bytes = 0;
  for (const cuda::KernelShape& shape : options.shapes) {
    const size_t largest = static_cast<size_t>(shape.d_ff * shape.d_model) * sizeof(float);
    options.memory_bytes = std::max(options.memory_bytes, std::min(kMostMemory, 64 * largest));
  }
  GpuProfile gpu;
  std::vector<cuda::KernelTime> times;
  if (!simulated) gpu = measured_gpu();
  {
    ProgressLine line(simulated ? "Simulating" : "Measuring");
    options.progress = [&line](double fraction) { line.update(fraction); };
    if (simulated) {
      const MachineProfile machine = machine_named(command.machine);
      if (!machine.gpu)
        throw std::runtime_error(machine.name + " has no GPU whose kernels could be simulated.");
      gpu = *machine.gpu;
      VirtualTime time;
      cuda::simulate_device(simulated_speeds(machine), nullptr);
      times = cuda::time_kernels(options);
      time.end();
    } else {
      times = cuda::time_kernels(options);
    }
  }
  print_result(command.json ? kernel_bench_json(gpu, simulated, times)
                            : kernel_bench_text(gpu, simulated, times));
  return 0;
}

}  // namespace hearth
