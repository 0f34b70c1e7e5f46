// Answers the question by solving for the placement, then solves again with one thing changed at a time.
#include "profiler/plan/plan_answer.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>

#include <spdlog/fmt/fmt.h>
#include "engine/forward/kv_memory.h"
#include "engine/placement/place_model.h"
#include "engine/residency/memory_limit.h"

namespace hearth {
namespace {

// The VRAM that model_runtime.cpp leaves free, and the share of RAM that is left to the system and other
// programs.
constexpr int64_t kLeftVram = int64_t{256} << 20;
constexpr double kLeftVramShare = 0.03, kLeftRamShare = 0.05;
/// A change is reported only if it gains at least this share.
constexpr double kWorthTelling = 0.01;

std::string gb(double bytes) { return bytes_text(bytes); }

/// Solves for one model on one machine.
class Asked {
 public:
  Asked(const PlannedModel& model, const PlanQuestion& question) : question_(question) {
    std::vector<Sparsity> modes = question.modes.empty() ? model.modes() : question.modes;
    for (const Sparsity mode : modes) {
      Mode& own = modes_.emplace_back();
      own.basis = std::make_unique<PlanBasis>(model, mode, question.load);
      own.activity = std::make_unique<ModelActivity>(activity_for(model, mode));
      own.facts = model_facts(own.basis->inputs(), *own.activity, true, question.assumptions);
    }
  }

  /// Returns the solutions for all modes, the fastest first; empty if no mode fits the budgets.
  std::vector<PlacementSolution> solve(const MachineProfile& machine, int64_t vram, int64_t ram) const {
    const CostModel cost(machine);
    std::vector<PlacementSolution> found;
    for (const Mode& mode : modes_) {
      std::optional<PlacementSolution> solution =
          solve_placement(mode.facts, cost,
                          {.vram_bytes = vram,
                           .ram_bytes = ram,
                           .by_layers = by_layers(DeviceSplit::kAuto, mode.facts.mode)});
      if (solution) found.push_back(*std::move(solution));
    }
    std::ranges::stable_sort(found, {}, &PlacementSolution::seconds);
    return found;
  }

  /// Throws an error that states why no mode fits the budgets.
  [[noreturn]] void refuse(int64_t vram, int64_t ram) const {
    const CostModel cost(question_.machine);
    int64_t least = std::numeric_limits<int64_t>::max();
    for (const Mode& mode : modes_) least = std::min(least, least_ram(mode.facts, cost, vram));
    std::string beside =
        cost.has_gpu() && vram > 0 ? " beside " + gb(static_cast<double>(vram)) + " of VRAM" : "";
    throw std::runtime_error("RAM of " + gb(static_cast<double>(ram)) + " does not hold " +
                             question_.model.name + ": what the GPU does not take needs " +
                             gb(static_cast<double>(least)) + beside +
                             "; give more (--ram-budget, --vram-budget), a smaller type, a smaller context "
                             "or fewer contexts (--kv-contexts).");
  }

  int add_contexts(PlacementSolution& solution, int64_t vram, int64_t ram) const {
    const Mode& mode = mode_of(solution.mode);
    return hearth::add_contexts(solution, mode.basis->inputs(), *mode.activity, question_.load, vram, ram);
  }

  /// Returns the least VRAM with which at least one mode can use the GPU.
  int64_t least_vram() const {
    int64_t least = std::numeric_limits<int64_t>::max();
    for (const Mode& mode : modes_) least = std::min(least, mode.facts.vram_least);
    return least;
  }
  const ModelActivity& activity_of(Sparsity mode) const { return *mode_of(mode).activity; }

 private:
  struct Mode {
    std::unique_ptr<PlanBasis> basis;
    std::unique_ptr<ModelActivity> activity;
    ModelFacts facts;
  };

  const Mode& mode_of(Sparsity mode) const {
    return *std::ranges::find_if(modes_, [&](const Mode& m) { return m.facts.mode == mode; });
  }

  ModelActivity activity_for(const PlannedModel& model, Sparsity mode) const {
    if (mode == Sparsity::kDense) return dense_activity(model.spec);
    if (question_.activity) return *question_.activity;
    std::optional<ActivityLaw> law = known_law(model.spec);
    if (!law) return dense_activity(model.spec);
    if (question_.active) {
      law->active = *question_.active;
      law->source = "as said, spread " + law->source;
    }
    return law_activity(*law, model.spec);
  }

  const PlanQuestion& question_;
  std::vector<Mode> modes_;
};

/// Returns the next smaller type of weights: one with clearly fewer bits than the type of the up matrices.
std::optional<DType> smaller_type(const PlannedModel& model) {
  const Matrix& up = model.weights.layers.front().up.weight;
  const auto bits = [](DType type) {
    return 8.0 * dtype_info(type).block_bytes / dtype_info(type).block_elems;
  };
  for (const DType type :
       {DType::kQ8_0, DType::kQ6_K, DType::kQ5_K, DType::kQ4_K, DType::kQ4_0, DType::kQ3_K, DType::kQ2_K}) {
    const bool whole = up.n_cols % dtype_info(type).block_elems == 0;
    if (whole && bits(type) <= 0.85 * bits(up.dtype)) return type;
  }
  return std::nullopt;
}

std::vector<PlanHelp> find_helps(const PlanQuestion& question, const Asked& asked, int64_t vram,
                                 int64_t ram) {
  std::vector<PlanHelp> helps;
  const auto add = [&](const std::string& what, const std::vector<PlacementSolution>& solved) {
    if (!solved.empty()) helps.push_back({what, 1 / solved.front().seconds()});
  };
  const auto with = [&](const std::string& what, const auto& change) {
    MachineProfile machine = question.machine;
    change(machine);
    add(what, asked.solve(machine, vram, ram));
  };
  const MachineProfile& now = question.machine;
  const double ram_rate = now.ram_read_bytes_per_s();
  with(fmt::format("RAM of {:.0f} GB/s instead of {:.0f}", 1.5 * ram_rate / 1e9, ram_rate / 1e9),
       [](MachineProfile& m) {
         for (ReadRate& rate : m.host.ram_read) rate.bytes_per_s *= 1.5;
       });
  with(fmt::format("scattered rows read at {:.0f} % of RAM's speed instead of {:.0f} %",
                   100 * (now.host.sparse_row_share + 1) / 2, 100 * now.host.sparse_row_share),
       [](MachineProfile& m) { m.host.sparse_row_share = (m.host.sparse_row_share + 1) / 2; });
  if (now.gpu) {
    const double gib = std::max(1.0, std::round(0.5 * static_cast<double>(vram) / (1 << 30)));
    add(fmt::format("{:.0f} GiB more VRAM", gib),
        asked.solve(now, vram + static_cast<int64_t>(gib * (1 << 30)), ram));
    with(fmt::format("VRAM of {:.0f} GB/s instead of {:.0f}", 1.5 * now.gpu->vram_bytes_per_s / 1e9,
                     now.gpu->vram_bytes_per_s / 1e9),
         [](MachineProfile& m) { m.gpu->vram_bytes_per_s *= 1.5; });
    with(fmt::format("PCIe of {:.0f} GB/s instead of {:.0f}", 2 * now.gpu->to_device_pinned_bytes_per_s / 1e9,
                     now.gpu->to_device_pinned_bytes_per_s / 1e9),
         [](MachineProfile& m) {
           m.gpu->to_device_pinned_bytes_per_s *= 2;
           m.gpu->from_device_pinned_bytes_per_s *= 2;
         });
    with("launches and hand-overs of half the time", [](MachineProfile& m) {
      m.gpu->starts /= 2;
      m.gpu->round_trip_s /= 2;
    });
  }
  if (const std::optional<DType> type = smaller_type(question.model)) {
    if (const std::optional<PlannedModel> smaller = model_of_type(question.model, *type)) {
      add(fmt::format("{} instead of {}", dtype_info(*type).name,
                      dtype_info(question.model.weights.layers.front().up.weight.dtype).name),
          Asked(*smaller, question).solve(now, vram, ram));
    }
  }
  return helps;
}

}  // namespace

int64_t usable_vram(int64_t vram_bytes) {
  return vram_bytes -
         std::max(kLeftVram, static_cast<int64_t>(kLeftVramShare * static_cast<double>(vram_bytes)));
}

int64_t usable_ram(int64_t ram_bytes) {
  return ram_bytes - static_cast<int64_t>(kLeftRamShare * static_cast<double>(ram_bytes));
}

int add_contexts(PlacementSolution& solution, const PlanInputs& inputs, const ModelActivity& activity,
                 const PlanLoad& load, int64_t vram_bytes, int64_t ram_bytes) {
  if (!load.decides_contexts()) return load.contexts_to_plan();
  const auto counts_of = [&](int n) { return kv_block_counts(inputs.spec, load, n); };
  if (!solution.on_gpu) {
    const auto more_bytes = [&](int n) {
      return KvMemory::bytes_needed(inputs.spec, counts_of(n)) -
             KvMemory::bytes_needed(inputs.spec, inputs.kv_counts);
    };
    const int n =
        contexts_beside(static_cast<double>(ram_bytes - solution.ram_bytes), load.n_slots, more_bytes);
    solution.ram_bytes += static_cast<int64_t>(more_bytes(n));
    return n;
  }
  Plan plan = placed_plan(
      inputs, {layer_placements(solution, inputs, activity), static_cast<size_t>(solution.stream_bytes)},
      static_cast<size_t>(vram_bytes));
  const size_t before = plan.device.kv;
  const int n = add_contexts(plan, inputs, load.contexts_to_plan(), load.n_slots, counts_of);
  solution.vram_bytes += static_cast<int64_t>(plan.device.kv - before);
  return n;
}

PlanAnswer answer_plan(const PlanQuestion& question) {
  const MachineProfile& machine = question.machine;
  const Asked asked(question.model, question);
  PlanAnswer answer;
  answer.vram_budget = machine.gpu ? question.vram_bytes.value_or(usable_vram(machine.gpu->vram_bytes)) : 0;
  answer.ram_budget = question.ram_bytes.value_or(usable_ram(machine.host.ram_bytes));
  if (machine.gpu && question.vram_bytes && *question.vram_bytes < asked.least_vram()) {
    throw std::runtime_error(
        "A GPU budget of " + gb(static_cast<double>(*question.vram_bytes)) + " holds nothing of " +
        question.model.name + ": scratch, output, one layer's attention and the KV cache need " +
        gb(static_cast<double>(asked.least_vram())) +
        "; give more (--vram-budget), a smaller context or fewer contexts (--kv-contexts).");
  }
  std::vector<PlacementSolution> solved = asked.solve(machine, answer.vram_budget, answer.ram_budget);
  if (solved.empty()) asked.refuse(answer.vram_budget, answer.ram_budget);
  answer.best = solved.front();
  answer.others.assign(solved.begin() + 1, solved.end());
  answer.n_kv_contexts = asked.add_contexts(answer.best, answer.vram_budget, answer.ram_budget);
  answer.activity = asked.activity_of(answer.best.mode);
  answer.helps = find_helps(question, asked, answer.vram_budget, answer.ram_budget);
  const double now = 1 / answer.best.seconds();
  std::erase_if(answer.helps,
                [&](const PlanHelp& help) { return help.tokens_per_s < now * (1 + kWorthTelling); });
  std::ranges::stable_sort(answer.helps, std::ranges::greater{}, &PlanHelp::tokens_per_s);
  return answer;
}

}  // namespace hearth
