// Reads the measurements of a machine, and compares them with simulated kernels.
#include "tests/profiler/simulation/measured_kernels.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <stdexcept>
#include <tuple>
#include <utility>

#include "kernels/base/virtual_time.h"
#include "kernels/cuda/bench/kernel_bench.h"
#include "kernels/cuda/ops/simulated_device.h"
#include "profiler/plan/planned_model.h"
#include "profiler/simulation/simulation.h"
#include "profiler/synthesis/shapes.h"

namespace hearth::test {
namespace {

using Json = nlohmann::json;
/// Shape, kernel, size, type, tokens.
using Key = std::tuple<std::string, std::string, std::string, std::string, int>;

Json read(const std::filesystem::path& path) {
  std::ifstream in(path);
  if (!in) throw std::runtime_error(path.string() + ": cannot be read.");
  return Json::parse(in);
}

MachineProfile machine_of(const Json& probe, const Json& kernels) {
  const Json& from = probe.at("gpu");
  MachineProfile machine;
  GpuProfile& gpu = machine.gpu.emplace();
  gpu.name = from.at("name");
  gpu.compute_major = std::stoi(from.at("compute_capability").get<std::string>());
  gpu.vram_bytes = from.at("vram_bytes");
  gpu.vram_bytes_per_s = from.at("vram_bytes_per_s");
  gpu.to_device_pinned_bytes_per_s = from.at("to_device_pinned_bytes_per_s");
  gpu.from_device_pinned_bytes_per_s = from.at("from_device_pinned_bytes_per_s");
  gpu.launch_s = from.at("launch_s");
  gpu.round_trip_s = from.at("round_trip_s");
  gpu.multiply_adds_per_s = from.at("multiply_adds_per_s");
  gpu.instructions_per_s = kernels.at("instructions_per_s");  // reported by the GPU; no probe measures it
  return machine;
}

/// The simulated times of the measured kernels on the probed GPU. Calls with the same GPU and the same
/// kernels share one simulation.
std::vector<cuda::KernelTime> simulated(const Json& probe, const Json& measured) {
  static std::map<std::string, std::vector<cuda::KernelTime>> known;
  cuda::KernelBenchOptions options;
  std::set<std::string> shapes, types;
  options.n_prompt = 1;
  options.n_runs = 1;
  for (const Json& kernel : measured.at("kernels")) {
    shapes.insert(kernel.at("shape").get<std::string>());
    if (!kernel.at("type").is_null()) types.insert(kernel.at("type").get<std::string>());
    options.n_prompt = std::max(options.n_prompt, kernel.at("tokens").get<int>());
  }
  options.context = std::max(options.context, options.n_prompt);
  for (const std::string& name : shapes) {
    const ModelShape* const shape = find_shape(name);
    if (shape == nullptr) throw std::runtime_error("kernels.json: there is no shape " + name + ".");
    options.shapes.push_back({.name = name,
                              .d_model = shape->d_model,
                              .d_ff = shape->d_ff,
                              .n_heads = shape->n_heads,
                              .n_kv_heads = shape->n_kv_heads,
                              .head_dim = shape->head_dim()});
  }
  for (const std::string& name : types) {
    const std::optional<DType> type = dtype_of_name(name);
    if (!type) throw std::runtime_error("kernels.json: there is no type " + name + ".");
    options.types.push_back(*type);
  }
  const std::string key =
      Json{probe, measured.at("instructions_per_s"), shapes, types, options.n_prompt}.dump();
  if (const auto found = known.find(key); found != known.end()) return found->second;
  VirtualTime time;
  cuda::simulate_device(simulated_speeds(machine_of(probe, measured)), nullptr);
  std::vector<cuda::KernelTime> times = cuda::time_kernels(options);
  time.end();
  return known[key] = std::move(times);
}

struct Ratio {
  double value;
  std::string kernel;
};

}  // namespace

KernelComparison compare_kernels(const std::filesystem::path& folder, double within) {
  const Json measured = read(folder / "kernels.json"), probe = read(folder / "probe.json");
  std::map<Key, double> seconds;
  for (const Json& kernel : measured.at("kernels")) {
    const Json& type = kernel.at("type");
    seconds[{kernel.at("shape"), kernel.at("kernel"), kernel.at("size"),
             type.is_null() ? "" : type.get<std::string>(), kernel.at("tokens")}] = kernel.at("seconds");
  }
  std::map<cuda::KernelClass, std::vector<Ratio>> ratios;
  KernelComparison comparison;
  for (const cuda::KernelTime& time : simulated(probe, measured)) {
    const auto found = seconds.find({time.shape, time.kernel, time.size, time.type, time.n_tokens});
    if (found == seconds.end()) continue;
    ++comparison.n_compared;
    ratios[time.work.kind].push_back(
        {time.seconds / found->second,
         fmt::format("{} {} {} {}, {} tokens: {:.2f} us instead of {:.2f}", time.shape, time.kernel,
                     time.size, time.type, time.n_tokens, 1e6 * time.seconds, 1e6 * found->second)});
  }
  if (comparison.n_compared == 0)
    throw std::runtime_error((folder / "kernels.json").string() + ": none of its kernels is simulated.");
  for (auto& [kind, of_class] : ratios) {
    std::ranges::sort(of_class, {}, &Ratio::value);
    const double median = of_class[of_class.size() / 2].value;
    if (std::abs(median - 1) <= within) continue;
    const Ratio& worst =
        std::ranges::max(of_class, {}, [](const Ratio& ratio) { return std::abs(std::log(ratio.value)); });
    comparison.wrong.push_back(
        {std::string(cuda::kKernelClassNames[static_cast<size_t>(kind)]), median, worst.kernel});
  }
  return comparison;
}

std::string comparison_text(const KernelComparison& comparison) {
  std::string text = fmt::format("{} kernels compared\n", comparison.n_compared);
  for (const WrongClass& wrong : comparison.wrong) {
    text += fmt::format("{}: simulated in {:.0f} % of the measured time; {}\n", wrong.name, 100 * wrong.ratio,
                        wrong.kernel);
  }
  return text;
}

}  // namespace hearth::test
