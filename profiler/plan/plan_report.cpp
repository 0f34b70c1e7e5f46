// Prints a plan for people and for programs.
#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "config/wrapped_lines.h"
#include "engine/residency/memory_limit.h"
#include "profiler/machine/rate_text.h"
#include "profiler/plan/plan_answer.h"

namespace hearth {
namespace {

using Json = nlohmann::ordered_json;

/// Sums over a placement's layers.
struct Counts {
  int n_gates = 0;
  double hot = 0, cache = 0;  // shares of all neurons
};

Counts counts_of(const PlacementSolution& solution, const ModelSpec& spec) {
  Counts counts;
  for (const LayerOption& layer : solution.layers) {
    counts.n_gates += layer.all_gates;
    counts.hot += static_cast<double>(layer.n_hot);
    counts.cache += static_cast<double>(layer.n_cache);
  }
  const double all = static_cast<double>(spec.n_layers) * spec.d_ff;
  counts.hot /= all;
  counts.cache /= all;
  return counts;
}

std::string bytes(double n) { return bytes_text(n); }
std::string bytes(int64_t n) { return bytes_text(static_cast<double>(n)); }

/// Returns the parts of a token's time, the longest first.
std::vector<std::pair<double, std::string>> waits(const TokenWork& work) {
  std::vector<std::pair<double, std::string>> parts = {{work.device_whole, "reading VRAM"},
                                                       {work.device_neurons, "the GPU's neurons"},
                                                       {work.cold_neurons, "cold neurons in RAM"},
                                                       {work.host_layers, "layers on the CPU"},
                                                       {work.kernels, "starting kernels"},
                                                       {work.hand_overs, "hand-overs between GPU and CPU"},
                                                       {work.step, "choosing tokens"}};
  std::ranges::stable_sort(parts, [](const auto& a, const auto& b) { return a.first > b.first; });
  return parts;
}

std::string waits_text(const TokenWork& work) {
  std::string text;
  for (const auto& [seconds, what] : waits(work)) {
    const double share = seconds / work.seconds();
    if (share < 0.005) break;
    text += fmt::format("{}{:.0f} % {}", text.empty() ? "" : ", ", 100 * share, what);
  }
  return text;
}

std::string_view mode_text(Sparsity mode) {
  switch (mode) {
    case Sparsity::kExact:
      return "exact: all gates, then what they let through; changes no answer";
    case Sparsity::kPredicted:
      return "predicted: what a predictor proposes; answers change a little where it misses";
    default:
      return "dense: every neuron";
  }
}

std::string gpu_line(const PlanQuestion& question, const PlanAnswer& answer) {
  const PlacementSolution& best = answer.best;
  const Counts counts = counts_of(best, question.model.spec);
  const int n_layers = question.model.spec.n_layers, n_device = best.n_device_layers();
  std::string text = fmt::format("{} of {}: ", bytes(best.vram_bytes), bytes(answer.vram_budget));
  if (counts.hot == 1) return text + "the whole model";
  text += n_device == n_layers ? "attention of all layers"
                               : fmt::format("attention of {} of {} layers", n_device, n_layers);
  if (counts.n_gates == n_layers) {
    text += ", all gates";
  } else if (counts.n_gates > 0) {
    text += fmt::format(", gates of {} layers", counts.n_gates);
  }
  text += fmt::format(", {:.1f} % of neurons", 100 * counts.hot);
  if (counts.cache > 0) text += fmt::format(" and a neuron cache for {:.1f} %", 100 * counts.cache);
  return text + fmt::format(", with {:.0f} % of what is active", 100 * best.caught);
}

/// Returns `name` in a column of its own, and `what` beside it in lines that fit a terminal.
std::string wrapped(std::string_view name, const std::string& what) {
  constexpr size_t kWidth = 100;
  std::string text;
  for (const std::string& line : wrapped_lines(what, kWidth)) {
    text += fmt::format("{:<10} {}\n", text.empty() ? name : "", line);
  }
  return text;
}

}  // namespace

std::string kv_words(KvType type) {
  return type == KvType::kF16 ? "" : std::string(", KV cache as ") + kv_type_name(type);
}

std::string prefill_bound(const PlacementSolution& solution) {
  if (!solution.on_gpu) return "arithmetic on the CPU";
  if (solution.n_device_layers() < static_cast<int>(solution.layers.size()))
    return "mostly the layers on the CPU";
  return solution.prefill_streams ? "PCIe, over which cold neurons come" : "arithmetic on the GPU";
}

std::string decode_bound(const PlacementSolution& solution) { return waits(solution.work).front().second; }

std::vector<std::pair<std::string, std::string>> plan_lines(const PlanQuestion& question,
                                                            const PlanAnswer& answer) {
  const PlannedModel& model = question.model;
  const PlacementSolution& best = answer.best;
  const TokenWork& work = best.work;
  std::vector<std::pair<std::string, std::string>> lines;
  const auto line = [&lines](std::string_view name, std::string what) {
    lines.emplace_back(name, std::move(what));
  };
  line("decode", fmt::format("{} tokens/s; of {:.3g} ms {}", rate_text(1 / best.seconds()),
                             1e3 * best.seconds(), waits_text(work)));
  line("prefill",
       fmt::format("{} tokens/s; the limit is {}", rate_text(1 / best.prefill_seconds), prefill_bound(best)));
  line("mode", std::string(mode_text(best.mode)));
  for (const PlacementSolution& other : answer.others) {
    line("", fmt::format("{}: {} tokens/s", sparsity_name(other.mode), rate_text(1 / other.seconds())));
  }
  if (best.on_gpu) line("GPU", gpu_line(question, answer));
  line("RAM", fmt::format("{} of {}: {}; read at {}", bytes(best.ram_bytes), bytes(answer.ram_budget),
                          !best.on_gpu                           ? "the whole model"
                          : counts_of(best, model.spec).hot == 1 ? "embeddings and work space"
                                                                 : "the rest, and embeddings",
                          read_rate_text(question.machine)));
  const TokenBytes& read = work.bytes;
  line("a token",
       fmt::format("reads {}{}{}", bytes(read.sum()),
                   best.on_gpu ? ": " + bytes(read.device_whole + read.device_neurons) + " of VRAM, " : "",
                   best.on_gpu ? bytes(read.cold_neurons + read.host_whole) + " of RAM" : " of RAM"));
  line("assumed",
       fmt::format("{}, half full{}; {:.0f} % of neurons active, {}",
                   slots_text(question.load, answer.n_kv_contexts), kv_words(question.load.kv_type),
                   100 * answer.activity.active_share(), answer.activity.source));
  line("at best", fmt::format("{} tokens/s: no placement in this mode is faster, by the same figures",
                              rate_text(1 / best.least_seconds)));
  for (const PlanHelp& help : answer.helps) {
    line(&help == &answer.helps.front() ? "would help" : "",
         fmt::format("{}: {} tokens/s ({:+.0f} %)", help.what, rate_text(help.tokens_per_s),
                     100 * (help.tokens_per_s * best.seconds() - 1)));
  }
  return lines;
}

std::string lines_text(const std::vector<std::pair<std::string, std::string>>& lines) {
  std::string text;
  for (const auto& [name, what] : lines) text += wrapped(name, what);
  return text;
}

std::string slots_text(const PlanLoad& load, int n_kv_contexts) {
  if (load.n_slots == 1) return fmt::format("1 slot of {} tokens", load.context_tokens);
  std::string text = fmt::format("{} slots of {} tokens each", load.n_slots, load.context_tokens);
  if (n_kv_contexts < load.n_slots)
    text += fmt::format(", with a KV cache for {}", fmt::format("{} at once", n_kv_contexts));
  return text;
}

std::string plan_text(const PlanQuestion& question, const PlanAnswer& answer) {
  const PlannedModel& model = question.model;
  std::string text = fmt::format("{}, {}, {} of weights, on {}: predicted, not measured\n\n", model.name,
                                 dtype_info(model.weights.layers.front().up.weight.dtype).name,
                                 bytes(model.weight_bytes()), question.machine.name);
  return text + lines_text(plan_lines(question, answer));
}

std::string plan_json(const PlanQuestion& question, const PlanAnswer& answer) {
  const auto solution_json = [&](const PlacementSolution& s) {
    const TokenWork& w = s.work;
    const Counts counts = counts_of(s, question.model.spec);
    return Json{{"mode", sparsity_name(s.mode)},
                {"decode_tokens_per_s", 1 / s.seconds()},
                {"decode_tokens_per_s_at_best", 1 / s.least_seconds},
                {"prefill_tokens_per_s", 1 / s.prefill_seconds},
                {"prefill_bound", prefill_bound(s)},
                {"gpu", s.on_gpu},
                {"vram_bytes", s.vram_bytes},
                {"ram_bytes", s.ram_bytes},
                {"device_layers", s.n_device_layers()},
                {"layers_with_all_gates", counts.n_gates},
                {"hot_share", counts.hot},
                {"cache_share", counts.cache},
                {"caught_share", s.caught},
                {"seconds",
                 {{"device_whole", w.device_whole},
                  {"device_neurons", w.device_neurons},
                  {"cold_neurons", w.cold_neurons},
                  {"host_layers", w.host_layers},
                  {"kernels", w.kernels},
                  {"hand_overs", w.hand_overs},
                  {"step", w.step}}},
                {"token_bytes",
                 {{"device_whole", w.bytes.device_whole},
                  {"device_neurons", w.bytes.device_neurons},
                  {"cold_neurons", w.bytes.cold_neurons},
                  {"host_whole", w.bytes.host_whole}}}};
  };
  Json json = {{"model", question.model.name},
               {"type", dtype_info(question.model.weights.layers.front().up.weight.dtype).name},
               {"weight_bytes", question.model.weight_bytes()},
               {"machine", question.machine.name},
               {"context_tokens", question.load.context_tokens},
               {"slots", question.load.n_slots},
               {"kv_contexts", answer.n_kv_contexts},
               {"kv_type", kv_type_name(question.load.kv_type)},
               {"vram_budget_bytes", answer.vram_budget},
               {"ram_budget_bytes", answer.ram_budget},
               {"active_share", answer.activity.active_share()},
               {"activity", answer.activity.source},
               {"best", solution_json(answer.best)}};
  Json layers = Json::array();
  for (const LayerOption& layer : answer.best.layers) {
    layers.push_back({{"on_gpu", layer.on_device},
                      {"all_gates", layer.all_gates},
                      {"hot", layer.n_hot},
                      {"cache", layer.n_cache}});
  }
  json["layers"] = layers;
  json["other_modes"] = Json::array();
  for (const PlacementSolution& other : answer.others) json["other_modes"].push_back(solution_json(other));
  json["would_help"] = Json::array();
  for (const PlanHelp& help : answer.helps) {
    json["would_help"].push_back({{"what", help.what}, {"decode_tokens_per_s", help.tokens_per_s}});
  }
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace hearth
