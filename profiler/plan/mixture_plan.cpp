// Evaluates the formula of mixture_plan.h for a placement, and formats the plan.
#include "profiler/plan/mixture_plan.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <stdexcept>

#include "engine/forward/nextn_on_device.h"
#include "engine/forward/nextn_pass.h"
#include "engine/placement/cost_model.h"
#include "engine/placement/layer_options.h"
#include "engine/placement/place_model.h"
#include "engine/placement/solver.h"
#include "engine/residency/memory_limit.h"
#include "profiler/machine/rate_text.h"
#include "profiler/synthesis/planted_choice.h"

namespace hearth {
namespace {

/// Bytes of a layer's parts.
struct Layer {
  double attention = 0, router = 0, shared = 0;  // shared: the expert that all tokens share, or a dense FFN
  double expert = 0;                             // bytes of one expert; 0 in a layer without experts
  double kv_held = 0;                            // keys and values of one context
};

double bytes_of(const Matrix& matrix) { return matrix ? static_cast<double>(matrix.bytes()) : 0; }

Layer layer_of(const PlanQuestion& question, int index) {
  const PlannedModel& model = question.model;
  const LayerWeights& w = model.weights.layers[static_cast<size_t>(index)];
  Layer layer;
  for (const Matrix& matrix : attention_matrices(w)) layer.attention += bytes_of(matrix);
  for (const Linear* linear : {&w.mixture.router, &w.mixture.shared_gate})
    layer.router += bytes_of(linear->weight);
  for (const Linear* linear : {&w.gate, &w.up, &w.down}) layer.shared += bytes_of(linear->weight);
  for (const Expert& expert : w.mixture.shared) layer.shared += static_cast<double>(expert_bytes(expert));
  if (!w.mixture.experts.empty()) layer.expert = static_cast<double>(expert_bytes(w.mixture.experts.front()));
  layer.kv_held = kv_position_bytes(model.spec, index, question.load.kv_type) * question.load.context_tokens;
  if (model.spec.layer(index).recurrent) {
    MemoryMeter meter;
    const LayerStates states(meter, model.spec.recurrent, 1);
    layer.kv_held += static_cast<double>(meter.bytes());
  }
  return layer;
}

/// Whether RAM holds the whole file, so that a GPU can exchange its experts for any others.
bool ram_holds_all(const PlanQuestion& question) {
  const int64_t ram = question.ram_bytes.value_or(usable_ram(question.machine.host.ram_bytes));
  return static_cast<int64_t>(question.model.weight_bytes()) < ram;
}

/// The activity that the placement assumes if no experts were counted.
ModelActivity uncounted_activity(const PlanQuestion& question) {
  const ModelSpec& spec = question.model.spec;
  return ram_holds_all(question) ? exchanged_expert_activity(spec) : even_expert_activity(spec);
}

class Planner {
 public:
  Planner(const PlanQuestion& question, const ActivityCounts* counts, NextnShare nextn_share)
      : question_(question),
        spec_(question.model.spec),
        counted_(counts != nullptr && !counts->empty()),
        basis_(question.model, Sparsity::kDense, question.load, nextn_share),
        activity_(counted_ ? counted_activity(*counts, "as counted") : uncounted_activity(question)),
        facts_(model_facts(basis_.inputs(), activity_, true, question.assumptions)),
        cost_(question.machine) {
    for (int i = 0; i < spec_.n_layers; ++i) layers_.push_back(layer_of(question, i));
    facts_.prefill_tokens = std::max(1, question.load.prefill_chunk);
    facts_.experts_per_step =
        counted_ ? std::max<double>(spec_.mixture.n_used, experts_read_by(activity_, facts_.prefill_tokens))
                 : mean_experts_chosen(spec_, facts_.prefill_tokens);
    plan_.experts_per_step = facts_.experts_per_step;
    plan_.experts_source = counted_ ? "as counted" : "if tokens choose as synth plants it";
  }

  MixturePlan plan() {
    place();
    plan_.decode = waits_of(solution_.work);
    plan_.prefill = waits_of(solution_.prompt);
    return std::move(plan_);
  }

 private:
  const LayerOption& option(size_t layer) const { return solution_.layers[layer]; }

  /// Stores the solver's placement, and the number of contexts that the engine would choose. Throws if a
  /// budget is too small.
  void place() {
    const MachineProfile& machine = question_.machine;
    plan_.ram_budget = question_.ram_bytes.value_or(usable_ram(machine.host.ram_bytes));
    if (machine.gpu) {
      plan_.vram_budget = question_.vram_bytes.value_or(usable_vram(machine.gpu->vram_bytes));
      if (question_.vram_bytes && *question_.vram_bytes < facts_.vram_least) refuse_vram();
    }
    // The solver does not count an output matrix in RAM, so subtract its bytes from the budget.
    const bool tied = question_.model.weights.tied();
    const auto output = machine.gpu || tied ? 0 : static_cast<int64_t>(facts_.output_read);
    PlacementBudgets budgets{.vram_bytes = plan_.vram_budget,
                             .ram_bytes = plan_.ram_budget - output,
                             .cache = false,
                             .by_layers = false,
                             .streams = machine.gpu.has_value()};
    std::optional<PlacementSolution> found = solve(budgets);
    const bool fits = found.has_value();
    if (!fits) {
      budgets.ram_bytes = std::numeric_limits<int64_t>::max();
      found = solve(budgets);
    }
    solution_ = *std::move(found);  // not null: unlimited RAM holds any model
    plan_.on_gpu = solution_.on_gpu;
    plan_.n_device_layers = solution_.n_device_layers();
    plan_.chosen_on_gpu = solution_.caught;
    plan_.n_kv_contexts = add_contexts(solution_, basis_.inputs(), activity_, question_.load,
                                       plan_.vram_budget, plan_.ram_budget - output);
    plan_.exchanges = ram_holds_all(question_) && has_partly_resident_layer();
    tell_parts();
    if (plan_.exchanges && plan_.ram_bytes() > static_cast<double>(plan_.ram_budget)) {
      plan_.exchanges = false;
      tell_parts();
    }
    if (fits && plan_.ram_bytes() <= static_cast<double>(plan_.ram_budget)) return;
    throw std::runtime_error(
        "RAM of " + bytes_text(static_cast<double>(plan_.ram_budget)) + " does not hold " +
        question_.model.name + ": experts, and what the GPU does not take, need " +
        bytes_text(plan_.ram_bytes()) +
        "; give more (--ram-budget), a smaller type, a smaller context or fewer contexts (--kv-contexts).");
  }

  /// Solves as the engine does: uses a GPU even if the CPU alone would be faster (place_model()).
  std::optional<PlacementSolution> solve(const PlacementBudgets& budgets) const {
    std::optional<PlacementSolution> found = solve_placement(facts_, cost_, budgets);
    if (!found || found->on_gpu || !question_.machine.gpu) return found;
    const auto by_bytes = solve_placement(facts_, bytes_only(question_.machine), budgets);
    return by_bytes && by_bytes->on_gpu ? costed(*by_bytes, facts_, cost_) : found;
  }

  [[noreturn]] void refuse_vram() const {
    throw std::runtime_error(
        "A GPU budget of " + bytes_text(static_cast<double>(*question_.vram_bytes)) + " holds nothing of " +
        question_.model.name + ": scratch, output, one layer's attention and the KV cache need " +
        bytes_text(static_cast<double>(facts_.vram_least)) +
        "; give more (--vram-budget), a smaller context or fewer contexts (--kv-contexts).");
  }

  /// Whether the GPU holds some experts of the layer but not all.
  bool is_partly_resident(size_t layer) const {
    const int n = option(layer).n_experts;
    return n > 0 && n < spec_.mixture.n_experts;
  }
  bool has_partly_resident_layer() const {
    for (size_t i = 0; i < layers_.size(); ++i) {
      if (is_partly_resident(i)) return true;
    }
    return false;
  }

  /// Sets plan_.parts and the numbers of experts.
  void tell_parts() {
    plan_.parts.clear();
    plan_.n_resident = plan_.n_experts = 0;
    MixtureBytes attention{.what = "attention"}, kv{.what = "KV cache"}, routers{.what = "routers"},
        shared{.what = "shared experts and dense FFNs"}, experts{.what = "experts"}, output{.what = "output"},
        embeddings{.what = "embeddings"}, rest{.what = "work space and tables"};
    const auto put = [](MixtureBytes& part, double bytes, bool on_gpu, double read) {
      (on_gpu ? part.on_gpu : part.in_ram) += bytes;
      part.read += read;
    };
    for (size_t i = 0; i < layers_.size(); ++i) {
      const Layer& layer = layers_[i];
      const bool on_gpu = option(i).on_device;
      put(attention, layer.attention, on_gpu, layer.attention);
      put(kv, plan_.n_kv_contexts * layer.kv_held, on_gpu, facts_.layers[i].kv_read);
      put(routers, layer.router, on_gpu, layer.router);
      put(shared, layer.shared, on_gpu, layer.shared);
      const auto n_resident = static_cast<double>(option(i).n_experts);
      put(experts, layer.expert * n_resident, true, layer.expert * spec_.mixture.n_used);
      put(experts, layer.expert * (spec_.mixture.n_experts - n_resident), false, 0);
      if (plan_.exchanges && is_partly_resident(i)) experts.copied += layer.expert * n_resident;
      plan_.n_resident += option(i).n_experts;
      plan_.n_experts += layer.expert > 0 ? spec_.mixture.n_experts : 0;
    }
    experts.in_ram += experts.copied;
    put(output, facts_.output_read, plan_.on_gpu, facts_.output_read);
    const bool apart = !question_.model.weights.tied() || plan_.on_gpu;
    if (apart)
      put(embeddings, static_cast<double>(question_.model.weights.token_embedding.bytes()), false, 0);
    plan_.parts = {attention, kv, routers, shared, experts, output, embeddings, drafting_part()};
    rest.on_gpu = std::max(0.0, static_cast<double>(solution_.vram_bytes) - plan_.vram_bytes());
    rest.in_ram = static_cast<double>(ForwardPass::bytes_needed(spec_, basis_.inputs().bounds.max_tokens,
                                                                basis_.inputs().bounds.max_logit_rows));
    plan_.parts.push_back(rest);
    std::erase_if(plan_.parts, [](const MixtureBytes& part) { return part.on_gpu + part.in_ram == 0; });
  }

  /// The layers that predict later tokens. Decoding a token without drafts reads nothing of them.
  MixtureBytes drafting_part() const {
    MixtureBytes part{.what = "layers that predict later tokens"};
    const NextnWeights* const nextn = question_.model.nextn.get();
    if (nextn == nullptr) return part;
    const PlanInputs& inputs = basis_.inputs();
    double experts = 0, others = 0;
    for (const NextnHead& head : nextn->heads) {
      const LayerWeights& w = head.weights.layers.front();
      others += bytes_of(head.join.weight);
      for (const Matrix& matrix : attention_matrices(w)) others += bytes_of(matrix);
      for (const Linear* linear : {&w.gate, &w.up, &w.down, &w.mixture.router, &w.mixture.shared_gate})
        others += bytes_of(linear->weight);
      for (const Expert& expert : w.mixture.shared) others += static_cast<double>(expert_bytes(expert));
      for (const Expert& expert : w.mixture.experts) experts += static_cast<double>(expert_bytes(expert));
    }
    const double kv = plan_.n_kv_contexts * NextnPass::kv_position_bytes(*nextn, question_.load.kv_type) *
                      question_.load.context_tokens;
    const bool whole = plan_.on_gpu && inputs.nextn_share == NextnShare::kWhole;
    (plan_.on_gpu ? part.on_gpu : part.in_ram) += others + kv;
    (whole ? part.on_gpu : part.in_ram) += experts;
    return part;
  }

  static MixtureWork waits_of(const TokenWork& work) {
    return {.device_whole = work.device_whole,
            .host_experts = work.cold_neurons,
            .device_experts = work.device_neurons,
            .host_whole = work.host_layers,
            .kernels = work.kernels,
            .hand_overs = work.hand_overs,
            .step = work.step};
  }

  const PlanQuestion& question_;
  const ModelSpec& spec_;
  const bool counted_;
  const PlanBasis basis_;
  const ModelActivity activity_;
  ModelFacts facts_;
  const CostModel cost_;
  std::vector<Layer> layers_;
  PlacementSolution solution_;
  MixturePlan plan_;
};

std::vector<std::pair<double, std::string>> waits(const MixtureWork& work) {
  std::vector<std::pair<double, std::string>> parts = {{work.device_whole, "attention and output on the GPU"},
                                                       {work.host_experts, "experts on the CPU"},
                                                       {work.device_experts, "experts on the GPU"},
                                                       {work.host_whole, "attention and output on the CPU"},
                                                       {work.kernels, "starting kernels"},
                                                       {work.hand_overs, "hand-overs between GPU and CPU"},
                                                       {work.step, "choosing tokens"}};
  std::ranges::stable_sort(parts, [](const auto& a, const auto& b) { return a.first > b.first; });
  return parts;
}

std::string waits_text(const MixtureWork& work) {
  std::string text;
  for (const auto& [seconds, what] : waits(work)) {
    const double share = seconds / work.seconds();
    if (share >= 0.005) text += fmt::format("{}{:.0f} % {}", text.empty() ? "" : ", ", 100 * share, what);
  }
  return text;
}

template <class Of>
double sum_of(const std::vector<MixtureBytes>& parts, const Of& of) {
  double sum = 0;
  for (const MixtureBytes& part : parts) sum += of(part);
  return sum;
}

}  // namespace

double MixturePlan::vram_bytes() const {
  return sum_of(parts, [](const MixtureBytes& part) { return part.on_gpu; });
}
double MixturePlan::ram_bytes() const {
  return sum_of(parts, [](const MixtureBytes& part) { return part.in_ram; });
}
double MixturePlan::copied_bytes() const {
  return sum_of(parts, [](const MixtureBytes& part) { return part.copied; });
}
double MixturePlan::token_bytes() const {
  return sum_of(parts, [](const MixtureBytes& part) { return part.read; });
}

bool MixturePlan::is_complete(const ModelSpec& spec) const {
  return n_resident == n_experts && n_device_layers == spec.n_layers;
}

MixturePlan plan_mixture(const PlanQuestion& question, const ActivityCounts* counts) {
  MixturePlan plan = Planner(question, counts, NextnShare::kAllButExperts).plan();
  // As in plan_device(), the experts of a layer that drafts are on the GPU if all of the model is there too.
  const PlannedModel& model = question.model;
  if (!model.nextn || !plan.is_complete(model.spec) || !question.load.experts ||
      !model.nextn->spec.has_experts() || !why_not_nextn_experts(*model.nextn).empty()) {
    return plan;
  }
  MixturePlan whole = Planner(question, counts, NextnShare::kWhole).plan();
  return whole.is_complete(model.spec) ? whole : plan;
}

std::string mixture_bound(const MixtureWork& work) { return waits(work).front().second; }

std::vector<std::pair<std::string, std::string>> mixture_lines(const PlanQuestion& question,
                                                               const MixturePlan& plan) {
  const ModelSpec& spec = question.model.spec;
  std::vector<std::pair<std::string, std::string>> lines;
  const auto speed = [](const MixtureWork& work) {
    return fmt::format("{} tokens/s; of {:.3g} ms {}", rate_text(1 / work.seconds()), 1e3 * work.seconds(),
                       waits_text(work));
  };
  lines.emplace_back("decode", speed(plan.decode));
  lines.emplace_back("prefill", speed(plan.prefill));
  const bool resident = plan.n_resident > 0;
  lines.emplace_back("mode", fmt::format("experts on the {}, each token's own; changes no answer",
                                         !resident                           ? "CPU"
                                         : plan.n_resident == plan.n_experts ? "GPU"
                                                                             : "GPU and the CPU"));
  if (plan.on_gpu) {
    const std::string experts = resident
                                    ? fmt::format(", {} of {} experts with {:.0f} % of what is chosen",
                                                  plan.n_resident, plan.n_experts, 100 * plan.chosen_on_gpu)
                                    : "";
    lines.emplace_back(
        "GPU", fmt::format("{} of {}: attention, routers and shared experts of {} of {} layers{}, "
                           "and the output",
                           bytes_text(plan.vram_bytes()), bytes_text(static_cast<double>(plan.vram_budget)),
                           plan.n_device_layers, spec.n_layers, experts));
  }
  const bool whole = plan.is_complete(spec);
  std::string in_ram = !plan.on_gpu ? "the whole model"
                       : whole      ? "embeddings and work space"
                                    : "experts, embeddings, and the other layers";
  if (plan.exchanges) {
    in_ram += fmt::format("; {} of it are copies of the GPU's experts, which are exchanged for others",
                          bytes_text(plan.copied_bytes()));
  }
  lines.emplace_back("RAM", fmt::format("{} of {}: {}; read at {}", bytes_text(plan.ram_bytes()),
                                        bytes_text(static_cast<double>(plan.ram_budget)), in_ram,
                                        read_rate_text(question.machine)));
  std::string read;
  for (const MixtureBytes& part : plan.parts) {
    if (part.read > 0)
      read += fmt::format("{}{} of {}", read.empty() ? ": " : ", ", bytes_text(part.read), part.what);
  }
  lines.emplace_back("a token",
                     fmt::format("reads {}{}; {} of {} experts a layer", bytes_text(plan.token_bytes()), read,
                                 spec.mixture.n_used, spec.mixture.n_experts));
  lines.emplace_back(
      "assumed", fmt::format("{}, half full{}; a prompt's step of {} tokens reads {:.0f} experts of a "
                             "layer, {}",
                             slots_text(question.load, plan.n_kv_contexts), kv_words(question.load.kv_type),
                             question.load.prefill_chunk, plan.experts_per_step, plan.experts_source));
  return lines;
}

std::string mixture_text(const PlanQuestion& question, const MixturePlan& plan) {
  const PlannedModel& model = question.model;
  std::string text = fmt::format("{}, {}, {} of weights, on {}: predicted, not measured\n\n", model.name,
                                 dtype_info(model.main_type()).name, bytes_text(model.weight_bytes()),
                                 question.machine.name);
  return text + lines_text(mixture_lines(question, plan));
}

std::string mixture_json(const PlanQuestion& question, const MixturePlan& plan) {
  using Json = nlohmann::ordered_json;
  const auto seconds = [](const MixtureWork& work) {
    return Json{{"device_whole", work.device_whole},
                {"experts", work.host_experts},
                {"device_experts", work.device_experts},
                {"host_whole", work.host_whole},
                {"kernels", work.kernels},
                {"hand_overs", work.hand_overs},
                {"step", work.step}};
  };
  Json parts = Json::array();
  for (const MixtureBytes& part : plan.parts) {
    parts.push_back({{"what", part.what},
                     {"vram_bytes", part.on_gpu},
                     {"ram_bytes", part.in_ram},
                     {"ram_copy_bytes", part.copied},
                     {"token_bytes", part.read}});
  }
  const PlannedModel& model = question.model;
  const Json json = {{"model", model.name},
                     {"type", dtype_info(model.main_type()).name},
                     {"weight_bytes", model.weight_bytes()},
                     {"machine", question.machine.name},
                     {"context_tokens", question.load.context_tokens},
                     {"slots", question.load.n_slots},
                     {"kv_contexts", plan.n_kv_contexts},
                     {"kv_type", kv_type_name(question.load.kv_type)},
                     {"vram_budget_bytes", plan.vram_budget},
                     {"ram_budget_bytes", plan.ram_budget},
                     {"experts",
                      {{"of_a_layer", model.spec.mixture.n_experts},
                       {"of_a_token", model.spec.mixture.n_used},
                       {"of_a_prompt_step", plan.experts_per_step},
                       {"source", plan.experts_source}}},
                     {"best",
                      {{"mode", "dense"},
                       {"decode_tokens_per_s", 1 / plan.decode.seconds()},
                       {"prefill_tokens_per_s", 1 / plan.prefill.seconds()},
                       {"gpu", plan.on_gpu},
                       {"device_layers", plan.n_device_layers},
                       {"resident_experts", plan.n_resident},
                       {"exchanges_experts", plan.exchanges},
                       {"chosen_on_gpu", plan.chosen_on_gpu},
                       {"vram_bytes", plan.vram_bytes()},
                       {"ram_bytes", plan.ram_bytes()},
                       {"ram_copy_bytes", plan.copied_bytes()},
                       {"token_bytes", plan.token_bytes()},
                       {"seconds", seconds(plan.decode)},
                       {"prefill_seconds", seconds(plan.prefill)}}},
                     {"parts", parts}};
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace hearth
