// Runs a prompt and decoding steps in virtual time, and formats the result.
#include "profiler/simulation/simulation.h"

#include <spdlog/fmt/fmt.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <stdexcept>

#include "engine/placement/kernel_costs.h"
#include "kernels/base/virtual_time.h"
#include "profiler/bench/byte_bound.h"

namespace hearth {
namespace {

using Json = nlohmann::ordered_json;

/// Returns the difference between the counters now and an earlier reading.
PrefetchCounters since(const PrefetchCounters& before, const PrefetchCounters& now) {
  return {.moved = now.moved - before.moved,
          .used = now.used - before.used,
          .late = now.late - before.late,
          .evicted = now.evicted - before.evicted,
          .evicted_unused = now.evicted_unused - before.evicted_unused,
          .bytes = now.bytes - before.bytes,
          .copy_seconds = now.copy_seconds - before.copy_seconds,
          .hidden_seconds = now.hidden_seconds - before.hidden_seconds};
}

/// Returns the planner's result for a mixture, or nullopt if the model does not fit in RAM.
std::optional<MixturePlan> mixture_plan(const SimulatedLoad& load) {
  const PlanQuestion question{.model = load.model,
                              .machine = load.machine,
                              .vram_bytes = load.vram_bytes,
                              .ram_bytes = load.ram_bytes,
                              .load = load.load,
                              .modes = {},
                              .activity = std::nullopt,
                              .active = std::nullopt,
                              .assumptions = load.assumptions};
  try {
    return plan_mixture(question, &load.expert_counts);
  } catch (const std::runtime_error&) {
    return std::nullopt;
  }
}

/// The bytes of the GPU's memory that a budget leaves free.
size_t left_vram(const SimulatedLoad& load) {
  const int64_t all = load.machine.gpu->vram_bytes;
  return static_cast<size_t>(all - usable_vram(all));
}

/// Measures one phase, from the construction of this object to end().
class PhaseClock {
 public:
  explicit PhaseClock(SimulatedModel& model) : model_(model) {
    cuda::reset_simulated();
    model.host().reset();
    begin_ = VirtualTime::current()->now();
  }
  SimulatedPhase end(int64_t n_tokens, int64_t n_steps) const {
    return {.seconds = VirtualTime::current()->now() - begin_,
            .n_tokens = n_tokens,
            .n_steps = n_steps,
            .device = cuda::simulated_use(),
            .host_busy_s = model_.host().busy_s(),
            .both_busy_s = model_.host().busy_beside_device_s(),
            .n_woken = model_.host().n_woken()};
  }

 private:
  SimulatedModel& model_;
  double begin_ = 0;
};

}  // namespace

cuda::SimulatedSpeeds simulated_speeds(const MachineProfile& machine) {
  const GpuProfile& gpu = *machine.gpu;
  const cuda::KernelSpeeds kernels = kernel_speeds(gpu);
  return {.name = gpu.name,
          .compute_capability = 10 * gpu.compute_major + gpu.compute_minor,
          .vram_bytes = static_cast<size_t>(gpu.vram_bytes),
          .vram_bytes_per_s = gpu.vram_bytes_per_s,
          .to_device_bytes_per_s = gpu.to_device_pinned_bytes_per_s,
          .from_device_bytes_per_s = gpu.from_device_pinned_bytes_per_s,
          .kernels = kernels,
          .launch_s = gpu.launch_s,
          .copy_s = kernels[static_cast<size_t>(cuda::KernelClass::kSimple)].start_s,
          .gather_share = gather_share(gpu),
          .first_kernel_s = first_kernel_s(gpu),
          .launch_call_s = kCallCosts.launch,
          .graph_call_s = kCallCosts.graph,
          .wait_call_s = kCallCosts.wait,
          .visible_s = kCallCosts.visible};
}

bool can_simulate() { return cuda::can_simulate(); }

std::filesystem::path simulation_program(const std::filesystem::path& self) {
  return self.parent_path() / "hearth-simulator";
}

SimulationResult simulate(const SimulatedLoad& load, const SimulationOptions& options,
                          const std::function<void(double)>& progress) {
  VirtualTime time;
  cuda::SimulatedSpeeds speeds = simulated_speeds(load.machine);
  // With a larger budget than the GPU's memory, a GPU with more memory and the same speeds is simulated.
  speeds.vram_bytes = std::max(speeds.vram_bytes, static_cast<size_t>(load.vram_bytes) + left_vram(load));
  cuda::simulate_device(speeds, load.trace);
  SimulatedModel model(load);
  const int n_slots = load.load.n_slots, chunk = load.load.prefill_chunk;
  SimulationResult result;
  result.mode = load.mode;
  result.plan_lines = model.plan().lines(load.model.spec);
  if (load.model.spec.has_experts()) {
    result.mixture_plan = mixture_plan(load);
  } else {
    result.planned = model.solution();
  }
  result.device_bytes = model.plan().device;
  result.n_device_layers = model.plan().n_device_layers();
  result.n_shared_layers = model.n_shared_layers();
  result.n_kv_contexts = model.n_kv_contexts();
  result.n_layers = load.model.spec.n_layers;
  // For progress, a prompt's step counts as four decoding steps, because simulating it takes longer.
  const int n_chunks = (options.n_prompt + chunk - 1) / chunk;
  const int n_warm = model.exchanger() != nullptr ? options.n_warm_exchanges : options.n_warm;
  const double n_units = 4.0 * n_chunks + n_warm + options.n_generate;
  double done = 0;
  const auto advance = [&](double units) {
    done += units;
    if (progress) progress(done / n_units);
  };

  // 1. Run a prompt, in its own sequence.
  {
    const PhaseClock clock(model);
    for (int begin = 0; begin < options.n_prompt; begin += chunk) {
      model.step({begin}, {std::min(chunk, options.n_prompt - begin)});
      advance(4);
    }
    result.prefill = clock.end(options.n_prompt, n_chunks);
  }
  // 2. Decode in all slots, at the position that the plan assumes: by default, the middle of their contexts.
  const auto middle = static_cast<int>(load.assumptions.context_filled * load.load.context_tokens);
  // All slots share the KV pool, which may hold less than the contexts of all slots.
  const int last = std::min(load.load.context_tokens, model.max_positions()) - n_warm - options.n_generate;
  std::vector<int> positions(static_cast<size_t>(n_slots), std::clamp(middle, 0, std::max(last, 0)));
  const std::vector<int> ones(static_cast<size_t>(n_slots), 1);
  const auto decode = [&] {
    model.step(positions, ones);
    time.spend(kCallCosts.step);
    for (int& position : positions) ++position;
    advance(1);
  };
  for (int i = 0; i < n_warm; ++i) decode();
  model.reset_counts();
  PrefetchCounters before;
  if (model.prefetcher() != nullptr) before = model.prefetcher()->counters();
  ExchangeTotals exchanged;
  if (model.exchanger() != nullptr) exchanged = model.exchanger()->totals();
  const PhaseClock clock(model);
  for (int i = 0; i < options.n_generate; ++i) decode();
  result.decode = clock.end(int64_t{options.n_generate} * n_slots, options.n_generate);
  if (model.prefetcher() != nullptr) result.prefetch = since(before, model.prefetcher()->counters());
  if (model.exchanger() != nullptr) {
    const ExchangeTotals now = model.exchanger()->totals();
    result.exchange = {.experts = now.experts - exchanged.experts, .bytes = now.bytes - exchanged.bytes};
  }
  result.experts = model.counts().experts;

  if (result.planned) {
    const MachineBandwidth bandwidth{.ram = load.machine.ram_read_bytes_per_s(),
                                     .vram = load.machine.gpu->vram_bytes_per_s,
                                     .pcie = load.machine.gpu->to_device_pinned_bytes_per_s};
    result.share_of_bound =
        least_seconds(result.planned->work.bytes, bandwidth, true) * result.decode.tokens_per_s() / n_slots;
  }
  if (result.mixture_plan) {
    result.share_of_bound = result.mixture_plan->decode.reading() * result.decode.tokens_per_s() / n_slots;
  }
  time.end();
  return result;
}

namespace {

/// The planned seconds of a decoded token and of a prompt's token.
struct Planned {
  double decode_s, prefill_s;
};
std::optional<Planned> planned_of(const SimulationResult& r) {
  if (r.planned) return Planned{r.planned->seconds(), r.planned->prefill_seconds};
  if (r.mixture_plan) return Planned{r.mixture_plan->decode.seconds(), r.mixture_plan->prefill.seconds()};
  return std::nullopt;
}

/// Returns a phase's work, per step.
Json phase_json(const SimulatedPhase& phase, int n_layers) {
  const auto steps = static_cast<double>(phase.n_steps);
  Json by_class;
  for (size_t i = 0; i < cuda::kKernelClasses; ++i) {
    if (phase.device.n_of_class[i] > 0)
      by_class[cuda::kKernelClassNames[i]] = static_cast<double>(phase.device.n_of_class[i]) / steps;
  }
  const auto idle = [&](double busy) { return std::max(0.0, 1 - busy / phase.seconds); };
  return {{"seconds_per_step", phase.seconds / steps},
          {"kernels_per_step", static_cast<double>(phase.device.n_kernels) / steps},
          {"kernels_of_class_per_step", by_class},
          {"kernels_per_layer", static_cast<double>(phase.device.n_kernels) / steps / n_layers},
          {"copies_per_step", static_cast<double>(phase.device.n_copies) / steps},
          {"graphs_per_step", static_cast<double>(phase.device.n_graphs) / steps},
          {"graphs_per_layer", static_cast<double>(phase.device.n_graphs) / steps / n_layers},
          {"waits_per_layer", static_cast<double>(phase.device.n_waits) / steps / n_layers},
          {"hand_overs_per_layer", static_cast<double>(phase.device.n_hand_overs) / steps / n_layers},
          {"both_busy_share", phase.both_busy_s / phase.seconds},
          {"gpu_idle_share", idle(phase.device.kernels_s)},
          {"cpu_idle_share", idle(phase.host_busy_s)},
          {"pcie_idle_share", idle(phase.device.to_device_s)},
          {"vram_bytes_per_step", phase.device.bytes / steps},
          {"pcie_bytes_per_step", phase.device.to_device_bytes / steps},
          {"woken_forks_per_step", static_cast<double>(phase.n_woken) / steps}};
}

}  // namespace

std::string simulation_json(const SimulatedLoad& load, const SimulationOptions& options,
                            const SimulationResult& r) {
  Json json = {{"model", load.model.name},
               {"backend", "simulated " + load.machine.name},
               {"simulated", true},
               {"prompt", options.n_prompt},
               {"generate", options.n_generate},
               {"chunk", load.load.prefill_chunk},
               {"slots", load.load.n_slots},
               {"kv_contexts", r.n_kv_contexts},
               {"context_tokens", load.load.context_tokens},
               {"kv_type", kv_type_name(load.load.kv_type)},
               {"prefill_tokens_per_s", r.prefill.tokens_per_s()},
               {"decode_tokens_per_s", r.decode.tokens_per_s()},
               {"share_of_bound", r.share_of_bound},
               {"sparsity", {{"mode", sparsity_name(r.mode)}}},
               {"device", "GPU"},
               {"device_layers", r.n_device_layers},
               {"shared_layers", r.n_shared_layers},
               {"device_bytes", r.device_bytes.total()},
               {"decode", phase_json(r.decode, r.n_layers)},
               {"prefill", phase_json(r.prefill, r.n_layers)}};
  if (const std::optional<Planned> planned = planned_of(r)) {
    json["planned_decode_tokens_per_s"] = load.load.n_slots == 1 ? Json(1 / planned->decode_s) : Json();
    json["planned_prefill_tokens_per_s"] = 1 / planned->prefill_s;
  }
  if (r.experts.resident > 0)
    json["experts_on_device_share"] =
        static_cast<double>(r.experts.resident) / static_cast<double>(r.experts.chosen);
  if (r.exchange) json["exchanged"] = {{"experts", r.exchange->experts}, {"bytes", r.exchange->bytes}};
  if (r.prefetch) {
    json["prefetch"] = {{"moved", r.prefetch->moved},
                        {"used", r.prefetch->used},
                        {"late", r.prefetch->late},
                        {"bytes", r.prefetch->bytes}};
  }
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

std::string simulation_text(const SimulatedLoad& load, const SimulationOptions& options,
                            const SimulationResult& r) {
  const int n_slots = load.load.n_slots;
  std::string text = fmt::format(
      "{}, {}, simulated on {}: no kernel was run\n\n"
      "prefill  {:9.1f} tokens/s  ({} tokens in steps of {})\n"
      "decode   {:9.1f} tokens/s  ({} tokens in the middle of a context of {}{})\n",
      load.model.name, sparsity_name(r.mode), load.machine.name, r.prefill.tokens_per_s(), options.n_prompt,
      load.load.prefill_chunk, r.decode.tokens_per_s(), options.n_generate, load.load.context_tokens,
      n_slots == 1 ? "" : fmt::format(", of each of {} sequences at once", n_slots));
  const std::optional<Planned> of = planned_of(r);
  if (of && n_slots > 1) {
    text +=
        fmt::format("plan     {:9.1f} tokens/s promised of one sequence alone, which --slots 1 simulates\n",
                    1 / of->decode_s);
  } else if (of) {
    const double planned = 1 / of->decode_s;
    text +=
        fmt::format("plan     {:9.1f} tokens/s promised; simulated {:+.1f} %; {:.0f} % of the bytes' bound\n",
                    planned, 100 * (r.decode.tokens_per_s() / planned - 1), 100 * r.share_of_bound);
  }
  if (const int64_t has = load.machine.gpu->vram_bytes; load.vram_bytes > has) {
    text +=
        fmt::format("memory   a budget of {:.1f} GiB, which is more than the GPU's {:.1f} GiB\n",
                    static_cast<double>(load.vram_bytes) / (1 << 30), static_cast<double>(has) / (1 << 30));
  }
  const auto phase_text = [&](const char* name, const SimulatedPhase& phase) {
    const auto steps = static_cast<double>(phase.n_steps);
    const double layers = steps * r.n_layers;
    return fmt::format(
        "{} {:9.2f} ms a step; idle: GPU {:.0f} %, CPU {:.0f} %, PCIe {:.0f} %; both busy {:.0f} %; "
        "{:.0f} woken forks\n"
        "         a layer: {:.1f} kernels, {:.1f} graphs, {:.1f} full waits for the GPU, {:.1f} hand-overs\n",
        name, 1e3 * phase.seconds / steps, 100 * (1 - phase.device.kernels_s / phase.seconds),
        100 * (1 - phase.host_busy_s / phase.seconds), 100 * (1 - phase.device.to_device_s / phase.seconds),
        100 * phase.both_busy_s / phase.seconds, static_cast<double>(phase.n_woken) / steps,
        static_cast<double>(phase.device.n_kernels) / layers,
        static_cast<double>(phase.device.n_graphs) / layers,
        static_cast<double>(phase.device.n_waits) / layers,
        static_cast<double>(phase.device.n_hand_overs) / layers);
  };
  text += phase_text("prefill ", r.prefill) + phase_text("decode  ", r.decode);
  if (r.experts.resident > 0) {
    text +=
        fmt::format("experts  {:.1f} % of those chosen are on the GPU",
                    100.0 * static_cast<double>(r.experts.resident) / static_cast<double>(r.experts.chosen));
    if (r.exchange) {
      text += fmt::format("; {} exchanged ({:.1f} MB)", r.exchange->experts,
                          static_cast<double>(r.exchange->bytes) / 1e6);
    }
    text += "\n";
  }
  if (r.prefetch) {
    text += fmt::format("prefetch {} neurons moved ({:.1f} MB), {} used, {} late\n", r.prefetch->moved,
                        static_cast<double>(r.prefetch->bytes) / 1e6, r.prefetch->used, r.prefetch->late);
  }
  for (const std::string& line : r.plan_lines) text += "plan     " + line + "\n";
  return text;
}

}  // namespace hearth
