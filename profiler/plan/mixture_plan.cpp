// See the header for the closed form.
#include "profiler/plan/mixture_plan.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "engine/placement/cost_model.h"
#include "engine/placement/host_costs.h"
#include "engine/placement/layer_options.h"
#include "engine/residency/memory_limit.h"
#include "kernels/cuda/ops/kernel_class.h"
#include "profiler/activity/expert_use.h"
#include "profiler/machine/rate_text.h"
#include "profiler/synthesis/planted_choice.h"

namespace hearth {
namespace {

/// Bytes and multiply-adds (of one token) of a group of matrices.
struct Matrices {
  double bytes = 0, multiply_adds = 0;

  void add(const Matrix& m) {
    if (!m) return;
    bytes += static_cast<double>(m.bytes());
    multiply_adds += static_cast<double>(m.n_rows) * static_cast<double>(m.n_cols);
  }
  Matrices& operator+=(const Matrices& other) {
    bytes += other.bytes;
    multiply_adds += other.multiply_adds;
    return *this;
  }
};

struct Layer {
  Matrices attention, router, shared;  // shared: the expert of all tokens, or a dense FFN
  Matrices expert;                     // one expert; empty in a layer without experts
  double kv_read = 0, kv_held = 0;     // bytes; kv_held is for one context
  bool norms_qk = false;               // queries and keys are normed, each by its own kernel
};

Matrices expert_of(const Expert& expert) {
  Matrices one;
  for (const Matrix* m : {&expert.gate, &expert.up, &expert.down}) one.add(*m);
  return one;
}

Layer layer_of(const PlanQuestion& question, int index) {
  const PlannedModel& model = question.model;
  const LayerWeights& w = model.weights.layers[static_cast<size_t>(index)];
  Layer layer;
  for (const Matrix& matrix : attention_matrices(w)) layer.attention.add(matrix);
  for (const Linear* linear : {&w.mixture.router, &w.mixture.shared_gate}) layer.router.add(linear->weight);
  for (const Linear* linear : {&w.gate, &w.up, &w.down}) layer.shared.add(linear->weight);
  for (const Expert& expert : w.mixture.shared) layer.shared += expert_of(expert);
  if (!w.mixture.experts.empty()) layer.expert = expert_of(w.mixture.experts.front());
  layer.norms_qk = w.q_norm != nullptr;
  const int window = model.spec.layer(index).window;
  const double per_token = kv_position_bytes(model.spec, question.load.kv_type);
  const double filled = question.load.context_tokens * question.assumptions.context_filled;
  layer.kv_read = per_token * (window > 0 ? std::min<double>(window, filled) : filled);
  layer.kv_held = per_token * question.load.context_tokens;
  return layer;
}

class Planner {
 public:
  Planner(const PlanQuestion& question, const ActivityCounts* counts)
      : question_(question), spec_(question.model.spec), cost_(question.machine) {
    for (int i = 0; i < spec_.n_layers; ++i) layers_.push_back(layer_of(question, i));
    output_.add(question.model.weights.output.weight);
    tokens_ = std::max(1, question.load.prefill_chunk);
    if (counts == nullptr || counts->empty()) {
      plan_.experts_per_step = mean_experts_chosen(spec_, tokens_);
      plan_.experts_source = "if tokens choose as synth plants it";
      return;
    }
    plan_.experts_per_step =
        std::max<double>(spec_.mixture.n_used, mean_experts_read_by_others(*counts, tokens_));
    plan_.experts_source = "as counted";
  }

  MixturePlan plan() {
    place();
    add_contexts();
    tell_parts();
    check_ram();
    for (int i = 0; i < spec_.n_layers; ++i) {
      add_decode(layers_[static_cast<size_t>(i)], i < plan_.n_device_layers);
      add_prefill(layers_[static_cast<size_t>(i)], i < plan_.n_device_layers);
    }
    if (plan_.on_gpu) {
      plan_.decode.device_whole += gpu_read(output_.bytes);
      plan_.decode.step += cost_.step();
    } else {
      plan_.decode.host_whole += cost_.cpu_read(output_.bytes);
    }
    return std::move(plan_);
  }

 private:
  static double whole_bytes(const Layer& layer) {
    return layer.attention.bytes + layer.router.bytes + layer.shared.bytes;
  }

  /// Places the output on the GPU, and as many of the first layers as fit its memory.
  void place() {
    const MachineProfile& machine = question_.machine;
    plan_.ram_budget = question_.ram_bytes.value_or(usable_ram(machine.host.ram_bytes));
    const int n = plan_.n_kv_contexts = question_.load.contexts_to_plan();
    if (!machine.gpu) return;
    plan_.vram_budget = question_.vram_bytes.value_or(usable_vram(machine.gpu->vram_bytes));
    double left = static_cast<double>(plan_.vram_budget) - output_.bytes;
    for (const Layer& layer : layers_) {
      left -= whole_bytes(layer) + n * layer.kv_held;
      if (left < 0) break;
      ++plan_.n_device_layers;
    }
    plan_.on_gpu = plan_.n_device_layers > 0;
    if (plan_.on_gpu || !question_.vram_bytes) return;
    throw std::runtime_error(
        "A GPU budget of " + bytes_text(static_cast<double>(plan_.vram_budget)) + " holds nothing of " +
        question_.model.name + ": output and one layer's attention with its keys and values need " +
        bytes_text(output_.bytes + whole_bytes(layers_[0]) + n * layers_[0].kv_held) +
        "; give more (--vram-budget), a smaller context or fewer contexts (--kv-contexts).");
  }

  /// Decides the number of contexts by the engine's rule: a GPU with memory to spare takes more, and so does
  /// RAM if there is no GPU.
  void add_contexts() {
    const PlanLoad& load = question_.load;
    if (!load.decides_contexts()) return;
    double kv = 0;
    for (const Layer& layer : layers_) kv += layer.kv_held;
    tell_parts();
    const double in_vram = plan_.vram_bytes(), in_ram = plan_.ram_bytes();
    plan_.parts.clear();
    if (plan_.n_device_layers == spec_.n_layers) {
      const double left = static_cast<double>(plan_.vram_budget) - in_vram;
      plan_.n_kv_contexts = 1 + static_cast<int>(std::clamp(left / kv, 0.0, load.n_slots - 1.0));
    } else if (!plan_.on_gpu) {
      plan_.n_kv_contexts = contexts_beside(static_cast<double>(plan_.ram_budget) - in_ram, load.n_slots,
                                            [&](int n) { return (n - 1) * kv; });
    }
  }

  void tell_parts() {
    MixtureBytes attention{.what = "attention"}, kv{.what = "keys and values"}, routers{.what = "routers"},
        shared{.what = "shared experts and dense FFNs"}, experts{.what = "experts"}, output{.what = "output"},
        embeddings{.what = "embeddings"};
    const auto put = [](MixtureBytes& part, double bytes, bool on_gpu, double read) {
      (on_gpu ? part.on_gpu : part.in_ram) += bytes;
      part.read += read;
    };
    for (int i = 0; i < spec_.n_layers; ++i) {
      const Layer& layer = layers_[static_cast<size_t>(i)];
      const bool on_gpu = i < plan_.n_device_layers;
      put(attention, layer.attention.bytes, on_gpu, layer.attention.bytes);
      put(kv, plan_.n_kv_contexts * layer.kv_held, on_gpu, layer.kv_read);
      put(routers, layer.router.bytes, on_gpu, layer.router.bytes);
      put(shared, layer.shared.bytes, on_gpu, layer.shared.bytes);
      put(experts, layer.expert.bytes * spec_.mixture.n_experts, false,
          layer.expert.bytes * spec_.mixture.n_used);
    }
    put(output, output_.bytes, plan_.on_gpu, output_.bytes);
    const bool apart = !question_.model.weights.tied() || plan_.on_gpu;
    if (apart)
      put(embeddings, static_cast<double>(question_.model.weights.token_embedding.bytes()), false, 0);
    for (const MixtureBytes& part : std::array{attention, kv, routers, shared, experts, output, embeddings}) {
      if (part.on_gpu + part.in_ram > 0) plan_.parts.push_back(part);
    }
  }

  void check_ram() const {
    if (plan_.ram_bytes() <= static_cast<double>(plan_.ram_budget)) return;
    throw std::runtime_error(
        "RAM of " + bytes_text(static_cast<double>(plan_.ram_budget)) + " does not hold " +
        question_.model.name + ": experts, and what the GPU does not take, need " +
        bytes_text(plan_.ram_bytes()) +
        "; give more (--ram-budget), a smaller type, a smaller context or fewer contexts (--kv-contexts).");
  }

  void add_decode(const Layer& layer, bool on_gpu) {
    MixtureWork& work = plan_.decode;
    const double experts = cost_.cpu_read(layer.expert.bytes * spec_.mixture.n_used);
    if (!on_gpu) {
      const HostCosts costs;
      work.experts += experts;
      work.host_whole += cost_.cpu_read(whole_bytes(layer) + layer.kv_read) +
                         (layer.expert.bytes > 0 ? costs.mixture_layer_s() : costs.dense_layer_s());
      return;
    }
    work.device_whole += gpu_read(layer.attention.bytes + layer.router.bytes) +
                         cost_.gpu_read(layer.kv_read, cuda::KernelClass::kAttention);
    work.kernels += cost_.kernels(kernels_of(layer));
    if (layer.expert.bytes == 0) {
      work.device_whole += gpu_read(layer.shared.bytes);
      return;
    }
    const double begin = HostCosts().experts_s();
    work.experts += std::max(experts, shared_s(layer) - begin);
    work.hand_overs += hand_over(1) + begin;
  }

  static KernelCounts kernels_of(const Layer& layer) {
    return mixture_kernels({.experts_read = layer.expert.bytes, .norms_qk = layer.norms_qk});
  }

  /// The GPU's share while the CPU computes experts.
  double shared_s(const Layer& layer) const {
    return layer.shared.bytes == 0 ? 0 : gpu_read(layer.shared.bytes) + cost_.kernels(ffn_kernels());
  }

  /// Seconds to hand over `n` tokens to the CPU and back.
  double hand_over(double n) const {
    return cost_.round_trip(sizeof(float) * n * (spec_.d_model + spec_.mixture.n_experts),
                            sizeof(float) * n * spec_.d_model);
  }

  DType type() const { return question_.model.main_type(); }
  double gpu_read(double bytes) const { return cost_.gpu_read(bytes, cuda::product_class(type())); }

  double cpu_step(const Matrices& m) const {
    return std::max(cost_.cpu_read(m.bytes), cost_.cpu_compute(m.multiply_adds * tokens_)) / tokens_;
  }
  double gpu_step(const Matrices& m) const {
    return std::max(gpu_read(m.bytes), cost_.gpu_compute(m.multiply_adds * tokens_, type())) / tokens_;
  }

  void add_prefill(const Layer& layer, bool on_gpu) {
    MixtureWork& work = plan_.prefill;
    Matrices whole = layer.attention;
    whole += layer.router;
    const bool beside = on_gpu && layer.expert.bytes > 0;  // while the CPU computes experts
    if (!beside) whole += layer.shared;
    (on_gpu ? work.device_whole : work.host_whole) += on_gpu ? gpu_step(whole) : cpu_step(whole);
    if (layer.expert.bytes > 0) {
      const double experts = cpu_step({.bytes = layer.expert.bytes * plan_.experts_per_step,
                                       .multiply_adds = layer.expert.multiply_adds * spec_.mixture.n_used});
      work.experts += beside ? std::max(experts, gpu_step(layer.shared)) : experts;
    }
    if (beside) work.hand_overs += (hand_over(tokens_) + HostCosts().experts_s()) / tokens_;
    if (on_gpu) work.kernels += cost_.kernels(kernels_of(layer)) / tokens_;
  }

  const PlanQuestion& question_;
  const ModelSpec& spec_;
  CostModel cost_;
  std::vector<Layer> layers_;
  Matrices output_;
  int tokens_ = 1;  // prompt tokens in a step
  MixturePlan plan_;
};

std::vector<std::pair<double, std::string>> waits(const MixtureWork& work) {
  std::vector<std::pair<double, std::string>> parts = {
      {work.device_whole, "attention and output on the GPU"}, {work.experts, "experts on the CPU"},
      {work.host_whole, "attention and output on the CPU"},   {work.kernels, "starting kernels"},
      {work.hand_overs, "hand-overs between GPU and CPU"},    {work.step, "choosing tokens"}};
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
double MixturePlan::token_bytes() const {
  return sum_of(parts, [](const MixtureBytes& part) { return part.read; });
}

MixturePlan plan_mixture(const PlanQuestion& question, const ActivityCounts* counts) {
  return Planner(question, counts).plan();
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
  lines.emplace_back("mode", "experts on the CPU, each token's own; changes no answer");
  if (plan.on_gpu) {
    lines.emplace_back(
        "GPU", fmt::format("{} of {}: attention, routers and shared experts of {} of {} layers, "
                           "and the output",
                           bytes_text(plan.vram_bytes()), bytes_text(static_cast<double>(plan.vram_budget)),
                           plan.n_device_layers, spec.n_layers));
  }
  lines.emplace_back(
      "RAM", fmt::format("{} of {}: {}", bytes_text(plan.ram_bytes()),
                         bytes_text(static_cast<double>(plan.ram_budget)),
                         plan.on_gpu ? "experts, embeddings, and the other layers" : "the whole model"));
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
                             "layer, {}; "
                             "work space is not counted",
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
    return Json{{"device_whole", work.device_whole}, {"experts", work.experts},
                {"host_whole", work.host_whole},     {"kernels", work.kernels},
                {"hand_overs", work.hand_overs},     {"step", work.step}};
  };
  Json parts = Json::array();
  for (const MixtureBytes& part : plan.parts) {
    parts.push_back({{"what", part.what},
                     {"vram_bytes", part.on_gpu},
                     {"ram_bytes", part.in_ram},
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
                       {"vram_bytes", plan.vram_bytes()},
                       {"ram_bytes", plan.ram_bytes()},
                       {"token_bytes", plan.token_bytes()},
                       {"seconds", seconds(plan.decode)},
                       {"prefill_seconds", seconds(plan.prefill)}}},
                     {"parts", parts}};
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace hearth
