// Derives a report's data from plans and measurements.
#include "profiler/report/report_data.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>

#include "engine/model/ffn_activation.h"
#include "engine/placement/place_model.h"
#include "engine/residency/memory_limit.h"
#include "kernels/base/file_error.h"
#include "profiler/activity/expert_use.h"
#include "profiler/machine/rate_text.h"
#include "profiler/report/held_out.h"

namespace hearth {
namespace {

/// Returns, for example, "1 token" or "2,000 tokens".
std::string count_text(int64_t n, std::string_view what) {
  return fmt::format("{} {}{}", file_error::with_commas(static_cast<uint64_t>(n)), what, n == 1 ? "" : "s");
}

std::string gb(int64_t bytes) { return bytes_text(static_cast<double>(bytes)); }

std::string facts_text(const PlannedModel& model) {
  const ModelSpec& spec = model.spec;
  const auto number = [](int n) { return file_error::with_commas(static_cast<uint64_t>(n)); };
  const MixtureSpec& mixture = spec.mixture;
  const std::string ffn =
      spec.has_experts() ? fmt::format("{} experts of {} neurons, {} of them a token's",
                                       number(mixture.n_experts), number(mixture.d_expert), mixture.n_used)
                         : number(spec.d_ff) + " neurons";
  return fmt::format("{}, {} of {}, {} of weights, {}", spec.arch.name, count_text(spec.n_layers, "layer"),
                     ffn, bytes_text(model.weight_bytes()), ffn_activation_name(spec.activation));
}

std::string machine_text(const MachineProfile& machine) {
  const HostProfile& host = machine.host;
  std::string text = fmt::format("On {}: {} cores, {} of RAM read at {}", machine.name, host.n_cores,
                                 gb(host.ram_bytes), read_rate_text(machine));
  if (machine.gpu) {
    text += fmt::format("; {}, {} of VRAM read at {}/s", machine.gpu->name, gb(machine.gpu->vram_bytes),
                        bytes_text(machine.gpu->vram_bytes_per_s));
  }
  return text + ".";
}

void add_activity(const Activity& activity, ReportData& data) {
  const ActivityCounts total = activity.total();
  if (total.empty()) return;
  data.n_tokens = total.n_tokens;
  std::string kinds;
  for (const ActivitySource source :
       {ActivitySource::kPrompt, ActivitySource::kGenerated, ActivitySource::kServed}) {
    const uint64_t n = activity.of(source).n_tokens;
    if (n == 0) continue;
    kinds +=
        fmt::format("{}{} of {}", kinds.empty() ? "" : ", ", file_error::with_commas(n), source_name(source));
  }
  data.text = kinds;
  for (int layer = 0; layer < total.n_layers; ++layer) {
    std::vector<double>& shares = data.activity.emplace_back();
    const size_t begin = total.index(layer, 0);
    for (size_t j = 0; j < static_cast<size_t>(total.d_ff); ++j) {
      shares.push_back(static_cast<double>(total.active[begin + j]) / total.n_tokens);
    }
  }
}

void add_gpu_bytes(const DeviceBytes& gpu, ReportData& data) {
  const auto add = [&data](const char* what, size_t bytes) {
    if (bytes > 0) data.bytes.push_back({what, static_cast<double>(bytes), 0});
  };
  add("attention", gpu.attention);
  add("KV cache", gpu.kv);
  add("recurrent states", gpu.states);
  add("output", gpu.output);
  add("predictors", gpu.predictors);
  add("gates of all neurons", gpu.gates);
  add("hot neurons", gpu.hot);
  add("neuron cache", gpu.cache);
  add("the layer that predicts later tokens", gpu.drafts);
  add("scratch, tables and buffers", gpu.scratch + gpu.tables + gpu.stream);
}

void add_placement(const ReportInputs& in, ReportData& data) {
  const PlacementSolution& best = in.answer.best;
  PlanLoad load = in.question.load;
  load.n_kv_contexts = in.answer.n_kv_contexts;
  const PlanBasis basis(in.question.model, best.mode, load);
  const PlanInputs& inputs = basis.inputs();
  if (best.on_gpu) {
    add_gpu_bytes(device_bytes(inputs, layer_placements(best, inputs, in.answer.activity),
                               static_cast<size_t>(best.stream_bytes)),
                  data);
  }
  const ModelFacts facts = model_facts(inputs, in.answer.activity, true, in.question.assumptions);
  const CostModel cost(in.question.machine);
  double cold = 0, host_layers = 0;
  for (size_t l = 0; l < best.layers.size(); ++l) {
    const double ram =
        static_cast<double>(LayerOptions(facts, static_cast<int>(l), cost, true).ram(best.layers[l]));
    (best.layers[l].on_device ? cold : host_layers) += ram;
  }
  if (cold > 0) data.bytes.push_back({"the GPU's layers' cold neurons", 0, cold});
  if (host_layers > 0) data.bytes.push_back({"layers of the CPU", 0, host_layers});
  const double rest = static_cast<double>(best.ram_bytes) - cold - host_layers;
  if (rest > 0) data.bytes.push_back({"embeddings and work space", 0, rest});

  if (!best.on_gpu) return;  // without a GPU, the report has no chart of GPU memory
  const double d_ff = in.question.model.spec.d_ff;
  for (const LayerOption& layer : best.layers) {
    data.layers.push_back({layer.on_device, layer.all_gates, static_cast<double>(layer.n_hot) / d_ff,
                           static_cast<double>(layer.n_cache) / d_ff});
  }
}

/// Adds the planned speeds, with decode first, and the measured speeds.
void add_speeds(const PlanLoad& load, std::vector<ReportSpeed> planned,
                const std::optional<SpeedMeasured>& speed, ReportData& data) {
  data.planned_run = fmt::format("a context of {}, half full", count_text(load.context_tokens, "token"));
  data.speeds = std::move(planned);
  if (!speed) return;
  data.measured_run =
      fmt::format("{} of prompt and {} generated", count_text(speed->n_prompt, "token"), speed->n_generated);
  data.speeds[0].expected = speed->expected.decode;
  data.speeds[0].measured = speed->decode;
  data.speeds[1].expected = speed->expected.prefill;
  data.speeds[1].measured = speed->prefill;
  data.busy = speed->busy;
}

ReportExperts report_experts(const ActivityCounts& counts) {
  ReportExperts experts;
  experts.n_experts = counts.d_ff;
  experts.mean_kept = mean_kept_share(counts);
  for (int layer = 0; layer < counts.n_layers; ++layer) experts.kept.push_back(counts.kept_share(layer));
  for (const double share : kCacheShares) {
    const int n = cached_experts(counts, share);
    experts.caches.push_back({n, choices_caught(counts, n)});
  }
  experts.reads.push_back({1, mean_experts_read(counts, 1), mean_experts_read(counts, 1)});
  for (const int n : ActivityCounts::kWindowTokens) {
    experts.reads.push_back({n, mean_experts_read(counts, n), mean_experts_read_by_others(counts, n)});
  }
  return experts;
}

/// Returns how many neurons of each layer are hot in the plan or nearly always cached. Returns nullopt if
/// this number is 0 or d_ff in every layer, because all placements are then equal.
std::optional<PlannedHot> planned_hot(const ReportInputs& in) {
  PlannedHot hot;
  int64_t n = 0;
  for (const LayerOption& layer : in.answer.best.layers) {
    n += hot.n.emplace_back(layer.on_device ? layer.n_there() : 0);
    hot.layers.push_back(layer.on_device);
  }
  const int64_t all = int64_t{in.question.model.spec.n_layers} * in.question.model.spec.d_ff;
  if (n == 0 || n == all) return std::nullopt;
  return hot;
}

void add_held_out(const ReportInputs& in, ReportData& data) {
  const HeldOut& held = *in.held_out;
  if (held.n_tokens == 0) return;
  data.held_out =
      fmt::format("{} of {} that {} not counted", count_text(static_cast<int64_t>(held.n_tokens), "token"),
                  count_text(held.n_texts, "text"), held.n_texts == 1 ? "was" : "were");
  if (in.counted != nullptr && !data.activity.empty()) {
    data.hits = compare_placements(in.counted->profile(), held.active, planned_hot(in));
  }
  for (size_t l = 0; l < held.predictors.size(); ++l) {
    ReportPredictor& one = data.predictors.emplace_back(
        ReportPredictor{.recall = held.predictors[l].recall(), .proposed = held.predictors[l].proposed()});
    if (l == 0) continue;  // no layer before it
    one.early_recall = held.ahead[l].recall();
    one.early_proposed = held.ahead[l].proposed();
  }
}

}  // namespace

ReportData report_data(const ReportInputs& in) {
  ReportData data;
  data.model = in.question.model.name;
  data.facts = facts_text(in.question.model);
  data.machine = machine_text(in.question.machine);
  data.made = in.made;
  const PlacementSolution& best = in.answer.best;
  add_speeds(in.question.load,
             {{.what = "decode", .planned = 1 / best.seconds(), .bound = decode_bound(best)},
              {.what = "prefill", .planned = 1 / best.prefill_seconds, .bound = prefill_bound(best)}},
             in.speed, data);
  add_placement(in, data);
  if (in.counted != nullptr) add_activity(*in.counted, data);
  if (in.held_out != nullptr) add_held_out(in, data);
  data.plan = plan_lines(in.question, in.answer);
  data.notes = in.notes;
  return data;
}

ReportData report_data(const MixtureReportInputs& in) {
  ReportData data;
  data.model = in.question.model.name;
  data.facts = facts_text(in.question.model);
  data.machine = machine_text(in.question.machine);
  data.made = in.made;
  const MixturePlan& plan = in.plan;
  add_speeds(
      in.question.load,
      {{.what = "decode", .planned = 1 / plan.decode.seconds(), .bound = mixture_bound(plan.decode)},
       {.what = "prefill", .planned = 1 / plan.prefill.seconds(), .bound = mixture_bound(plan.prefill)}},
      in.speed, data);
  for (const MixtureBytes& part : plan.parts) data.bytes.push_back({part.what, part.on_gpu, part.in_ram});
  if (in.counted != nullptr && in.counted->n_tokens() > 0) {
    add_activity(*in.counted, data);
    data.experts = report_experts(in.counted->total());
  }
  data.plan = mixture_lines(in.question, plan);
  data.notes = in.notes;
  return data;
}

}  // namespace hearth
