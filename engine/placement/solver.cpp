// See the header.
#include "engine/placement/solver.h"

#include <algorithm>
#include <cmath>

#include "kernels/cuda/ops/kernel_class.h"

namespace hearth {
namespace {

/// Bytes of each stream buffer. They are large enough to copy at the link's full speed, and small compared
/// with a GPU's memory.
constexpr int64_t kStreamBytes = int64_t{64} << 20;
/// Each stream buffer may take 1 / kStreamShare of the memory for neurons. If all gate rows fit on the GPU,
/// their memory is not counted as memory for neurons. If whole layers are streamed, a buffer may take 1 /
/// kLayerStreamShare of the memory that is left for layers.
constexpr int64_t kStreamShare = 16, kLayerStreamShare = 32;

class Problem {
 public:
  Problem(const ModelFacts& facts, const CostModel& cost, bool cache, bool by_layers)
      : facts_(facts), cost_(cost), by_layers_(by_layers) {
    for (size_t i = 0; i < facts.layers.size(); ++i) {
      layers_.emplace_back(facts, static_cast<int>(i), cost, cache);
    }
  }

  /// The solution with everything on the CPU.
  PlacementSolution on_cpu() const {
    PlacementSolution solution{.mode = facts_.mode, .layers = std::vector<LayerOption>(layers_.size())};
    finish(solution);
    solution.least_seconds = solution.seconds();
    return solution;
  }

  /// The solution with everything on the GPU, which needs no hand-overs. In a mixture, experts that the GPU
  /// may not hold are left out.
  PlacementSolution whole() const {
    PlacementSolution solution{.mode = facts_.mode, .layers = {}, .on_gpu = true};
    for (const LayerFacts& layer : facts_.layers) {
      solution.layers.push_back(
          {.on_device = true, .all_gates = false, .n_hot = facts_.d_ff, .n_experts = layer.n_placeable});
    }
    finish(solution);
    solution.vram_bytes = facts_.vram_whole;
    if (facts_.n_experts == 0) solution.ram_bytes = facts_.ram_fixed;
    solution.least_seconds = solution.seconds();
    return solution;
  }

  /// The options of each layer, and the same options as input of choose().
  struct Listed {
    std::vector<std::vector<LayerOption>> options;
    ChoiceChain chain;
    bool decoding_only = true;  // the choices' seconds count only decoding

    /// Removes the first option of each layer, which leaves the layer to the CPU.
    void leave_out_cpu() {
      for (auto& of_layer : options) of_layer.erase(of_layer.begin());
      for (auto& of_layer : chain.layers) of_layer.erase(of_layer.begin());
    }
    /// Removes all options with experts on the GPU. The options without experts are the first two.
    void leave_out_experts() {
      for (auto& of_layer : options) of_layer.resize(std::min<size_t>(of_layer.size(), 2));
      for (auto& of_layer : chain.layers) of_layer.resize(std::min<size_t>(of_layer.size(), 2));
    }
    bool has_experts() const {
      return std::ranges::any_of(options, [](const auto& of_layer) { return of_layer.back().n_experts > 0; });
    }
  };

  /// Adds the time of prompt tokens to the time of each choice of a mixture. For one generated token, counts
  /// PlacementAssumptions::prompt_tokens prompt tokens.
  void add_prompts(Listed& listed, bool streams) const {
    listed.decoding_only = false;
    for (size_t i = 0; i < layers_.size(); ++i) {
      for (size_t k = 0; k < listed.options[i].size(); ++k) {
        listed.chain.layers[i][k].seconds += facts_.assumptions.prompt_tokens *
                                             layers_[i].prompt_work(listed.options[i][k], streams).seconds();
      }
    }
  }

  Listed list() const {
    Listed listed;
    listed.options.resize(layers_.size());
    listed.chain.layers.resize(layers_.size());
    for (size_t i = 0; i < layers_.size(); ++i) {
      // From layer 2 on, layers may have predictors' proposals (see LayerOptions), so layer 2 must not copy
      // the options of layer 1.
      if (i > 2 && facts_.layers[i] == facts_.layers[i - 1] &&
          facts_.activity->curve_of_layer[i] == facts_.activity->curve_of_layer[i - 1]) {
        listed.options[i] = listed.options[i - 1];
        listed.chain.layers[i] = listed.chain.layers[i - 1];
      } else {
        layers_[i].list(listed.options[i], listed.chain.layers[i], by_layers_);
      }
    }
    return listed;
  }

  /// Returns the best solution that shares the model between GPU and CPU, or nullopt if no solution fits
  /// the budgets.
  std::optional<PlacementSolution> shared(const PlacementBudgets& budgets, const ChainLimits& limits,
                                          Listed& listed) const {
    ChoiceChain& chain = listed.chain;
    const bool streams = budgets.streams && (facts_.n_experts == 0 || listed.has_experts());
    const int64_t stream = streams ? stream_bytes(budgets.vram_bytes - facts_.vram_fixed) : 0;
    chain.vram = budgets.vram_bytes - facts_.vram_fixed - 2 * stream -
                 (listed.has_experts() ? facts_.vram_experts : 0);
    chain.ram = budgets.ram_bytes - facts_.ram_fixed;
    chain.crossing_seconds = crossing();
    if (chain.vram < 0 || chain.ram < 0) return std::nullopt;
    const std::optional<ChosenChain> chosen = choose(chain, limits);
    if (!chosen) return std::nullopt;
    PlacementSolution solution{.mode = facts_.mode, .layers = {}, .on_gpu = true, .stream_bytes = stream};
    for (size_t i = 0; i < layers_.size(); ++i) {
      solution.layers.push_back(listed.options[i][static_cast<size_t>(chosen->picks[i])]);
    }
    if (solution.n_device_layers() == 0) return std::nullopt;
    finish(solution);
    solution.least_seconds = solution.seconds();
    if (listed.decoding_only) solution.least_seconds += chosen->least_seconds - chosen->seconds;
    return solution;
  }

  PlacementSolution costed(const PlacementSolution& of) const {
    PlacementSolution solution{
        .mode = of.mode, .layers = of.layers, .on_gpu = of.on_gpu, .stream_bytes = of.stream_bytes};
    finish(solution);
    solution.vram_bytes = of.vram_bytes;
    solution.ram_bytes = of.ram_bytes;
    return solution;
  }

  int64_t least_ram(int64_t vram) const {
    int64_t least = facts_.ram_fixed;
    for (const LayerFacts& layer : facts_.layers) least += layer.ram_whole;
    ChoiceChain chain = list().chain;
    chain.vram = vram - facts_.vram_fixed;
    if (!cost_.has_gpu() || chain.vram < 0) return least;
    for (std::vector<Choice>& choices : chain.layers) {
      for (Choice& choice : choices) {
        choice.seconds = static_cast<double>(choice.ram);
        choice.ram = 0;
      }
    }
    const std::optional<ChosenChain> chosen = choose(chain, kPlacementLimits);
    if (chosen) least = std::min(least, facts_.ram_fixed + static_cast<int64_t>(chosen->seconds));
    return facts_.vram_whole <= vram ? std::min(least, whole().ram_bytes) : least;
  }

 private:
  /// Bytes of each stream buffer; 0 if there is no room for the buffers beside the attention of all layers.
  int64_t stream_bytes(int64_t vram) const {
    const auto piece = static_cast<int64_t>(kPieceBytes);
    if (facts_.n_experts > 0) return expert_stream_bytes(vram) / piece * piece;
    if (by_layers_) return std::min(kStreamBytes, vram / kLayerStreamShare) / piece * piece;
    int64_t left = vram, gates = 0;
    for (const LayerFacts& layer : facts_.layers) {
      left -= layer.vram_shared;
      gates += facts_.mode == Sparsity::kExact ? layer.vram_gates : 0;
    }
    if (left > gates) left -= gates;  // gate rows save more time than longer buffers
    return std::min(kStreamBytes, std::max<int64_t>(left, 0) / kStreamShare) / piece * piece;
  }

  /// Bytes of each buffer for the missing experts of a mixture; 0 if a buffer for one expert would take too
  /// much of the memory.
  int64_t expert_stream_bytes(int64_t vram) const {
    int64_t left = vram, least = 0;
    for (const LayerFacts& layer : facts_.layers) {
      left -= layer.vram_shared;
      least = std::max(least, layer.stream_least);
    }
    const int64_t bytes = std::min(kStreamBytes, std::max<int64_t>(left, 0) / kStreamShare);
    return least > 0 && bytes >= least ? bytes : 0;
  }

  double crossing() const { return cost_.round_trip(4.0 * facts_.d_model, 4.0 * facts_.d_model); }

  /// Sums the bytes and the work of all layers.
  void finish(PlacementSolution& solution) const {
    double all = 0, caught = 0;
    bool side = false;
    const auto go = [&](bool to) {
      if (side != to) solution.work.hand_overs += crossing();
      side = to;
    };
    solution.ram_bytes = facts_.ram_fixed;
    solution.vram_bytes = solution.on_gpu ? facts_.vram_fixed + 2 * solution.stream_bytes : 0;
    for (size_t i = 0; i < layers_.size(); ++i) {
      const LayerOption& option = solution.layers[i];
      go(option.on_device);
      solution.work += layers_[i].work(option);
      solution.vram_bytes += layers_[i].vram(option);
      solution.ram_bytes += layers_[i].ram(option);
      const double active = facts_.activity->of(static_cast<int>(i)).active();
      all += active;
      caught += active * layers_[i].caught(option);
    }
    go(solution.on_gpu);
    TokenWork output;
    if (solution.on_gpu) {
      output.bytes.device_whole = facts_.output_read;
      output.device_whole = cost_.gpu_read(facts_.output_read, cuda::product_class(facts_.output_type));
      output.step = cost_.step();
    } else {
      output.bytes.host_whole = facts_.output_read;
      output.host_layers = cost_.cpu_read(facts_.output_read);
    }
    solution.work += output;
    solution.caught = all > 0 ? caught / all : 0;
    if (facts_.n_experts == 0) return add_prefill(solution);
    for (size_t i = 0; i < layers_.size(); ++i)
      solution.prompt += layers_[i].prompt_work(solution.layers[i], solution.stream_bytes > 0);
    solution.prefill_seconds = solution.prompt.seconds();
    const bool holds =
        std::ranges::any_of(solution.layers, [](const LayerOption& o) { return o.n_experts > 0; });
    if (holds) solution.vram_bytes += facts_.vram_experts;
  }

  /// Adds the time of a step of prompt tokens. All neurons are computed, because nearly every neuron is
  /// wanted by some token of the step. If there are stream buffers, cold neurons are streamed to the GPU
  /// while it computes; otherwise the CPU computes them.
  void add_prefill(PlacementSolution& solution) const {
    const double n_tokens = facts_.prefill_tokens;
    double gpu = 0, link = 0, host = 0;
    for (size_t i = 0; i < layers_.size(); ++i) {
      const LayerOption& option = solution.layers[i];
      const LayerFacts& layer = facts_.layers[i];
      if (!option.on_device && by_layers_ && solution.stream_bytes > 0) {
        gpu += gpu_prompt(i);
        link += cost_.stream(layer.attention_read + layer.kv_read +
                             facts_.d_ff * (layer.gate + layer.up + layer.down));
        continue;
      }
      if (!option.on_device) {
        const double read =
            layer.attention_read + layer.kv_read + facts_.d_ff * (layer.gate + layer.up + layer.down);
        host += std::max(cost_.cpu_compute(n_tokens * (layer.attention_weights + layer.ffn_weights)),
                         cost_.cpu_read(read));
        continue;
      }
      const double cold = static_cast<double>(facts_.d_ff - option.n_hot);
      const double streamed = cold * ((option.all_gates ? 0 : layer.gate) + layer.up + layer.down);
      const double cold_share = cold / facts_.d_ff;
      if (solution.stream_bytes == 0 && cold > 0) {
        gpu += cost_.gpu_compute(n_tokens * layer.attention_weights, layer.attention_type);
        host +=
            std::max(cost_.cpu_compute(n_tokens * layer.ffn_weights * cold_share), cost_.cpu_read(streamed));
        continue;
      }
      gpu += gpu_prompt(i);
      link += cost_.stream(streamed);
    }
    solution.prefill_streams = link > gpu;
    solution.prefill_seconds = (std::max(gpu, link) + host) / n_tokens;
  }

  /// Seconds of a step of prompt tokens in a layer that the GPU computes. If neurons may be skipped, ordinary
  /// instructions compute the down projection, in integer sums. The tensor cores compute all other products.
  double gpu_prompt(size_t i) const {
    const LayerFacts& layer = facts_.layers[i];
    const double n_tokens = facts_.prefill_tokens, d_ff = facts_.d_ff;
    const double in_sums = facts_.mode == Sparsity::kDense ? 0 : d_ff * facts_.d_model;
    // The down kernel takes kDownPassTokens tokens in a pass. A pass skips the neurons that none of its
    // tokens needs.
    const double idle = 1 - facts_.activity->of(static_cast<int>(i)).active() / d_ff;
    const double wanted = in_sums * (1 - std::pow(idle, cuda::kDownPassTokens));
    const double passes = n_tokens / cuda::kDownPassTokens;
    const double attention =
        cost_.gpu_compute(n_tokens * layer.attention_weights, layer.attention_type, facts_.library);
    const double ffn =
        cost_.gpu_compute(n_tokens * (layer.ffn_weights - in_sums), layer.ffn_type, facts_.library);
    return attention + ffn +
           cost_.gpu_instructions(wanted * cuda::down_instructions(layer.down_is_quantized, n_tokens, passes),
                                  cuda::KernelClass::kDownRows);
  }

  const ModelFacts& facts_;
  const CostModel& cost_;
  const bool by_layers_;
  std::vector<LayerOptions> layers_;
};

bool has_cache(const PlacementSolution& solution) {
  return std::ranges::any_of(solution.layers, [](const LayerOption& layer) { return layer.n_cache > 0; });
}

}  // namespace

int PlacementSolution::n_device_layers() const {
  return static_cast<int>(std::ranges::count_if(layers, &LayerOption::on_device));
}

std::optional<PlacementSolution> solve_placement(const ModelFacts& facts, const CostModel& cost,
                                                 const PlacementBudgets& budgets, const ChainLimits& limits) {
  const Problem problem(facts, cost, /*cache=*/false, budgets.by_layers);
  std::optional<PlacementSolution> best;
  const auto rank = [&](const PlacementSolution& solution) {
    return (has_cache(solution) ? facts.assumptions.cache_margin : 1) * solution.seconds() +
           facts.assumptions.prompt_tokens * solution.prefill_seconds;
  };
  const auto offer = [&](std::optional<PlacementSolution> solution) {
    if (!solution) return;
    if (best) solution->least_seconds = std::min(solution->least_seconds, best->least_seconds);
    const double least = solution->least_seconds;
    if (!best || rank(*solution) < rank(*best)) best = std::move(solution);
    best->least_seconds = least;
  };
  if (cost.has_gpu() && facts.vram_whole <= budgets.vram_bytes) {
    PlacementSolution whole = problem.whole();
    if (whole.ram_bytes <= budgets.ram_bytes) offer(std::move(whole));
  }
  const auto offer_shared = [&](const Problem& of) {
    Problem::Listed listed = of.list();
    std::optional<PlacementSolution> solution = of.shared(budgets, limits, listed);
    const bool all_layers = solution && solution->n_device_layers() == static_cast<int>(facts.layers.size());
    offer(std::move(solution));
    // If a few layers are left to the CPU, there is more room for the hot neurons of other layers, which
    // helps decoding. But then the CPU computes the prompts in these layers. So also offer a solution that
    // leaves no layer to the CPU.
    if (budgets.by_layers || all_layers) return;
    listed.leave_out_cpu();
    offer(of.shared(budgets, limits, listed));
  };
  // Experts may be faster on the CPU even if the GPU has room for all of them, so offer a solution without
  // experts on the GPU. The best placement for decoding may be bad for prompts, so offer two solutions with
  // experts on the GPU: one that counts only decoding, and one that also counts prompts.
  if (cost.has_gpu() && facts.n_experts > 0) {
    Problem::Listed some = problem.list(), none = some;
    none.leave_out_experts();
    offer(problem.shared(budgets, limits, none));
    if (some.has_experts()) {
      offer(problem.shared(budgets, limits, some));
      problem.add_prompts(some, budgets.streams);
      offer(problem.shared(budgets, limits, some));
    }
  } else if (!best && cost.has_gpu()) {
    offer_shared(problem);
    if (budgets.cache && facts.mode == Sparsity::kPredicted)
      offer_shared(Problem(facts, cost, /*cache=*/true, budgets.by_layers));
  }
  PlacementSolution on_cpu = problem.on_cpu();
  if (on_cpu.ram_bytes <= budgets.ram_bytes) offer(std::move(on_cpu));
  return best;
}

PlacementSolution costed(const PlacementSolution& solution, const ModelFacts& facts, const CostModel& cost) {
  return Problem(facts, cost, false, false).costed(solution);
}

int64_t least_ram(const ModelFacts& facts, const CostModel& cost, int64_t vram_bytes) {
  return Problem(facts, cost, false, false).least_ram(vram_bytes);
}

}  // namespace hearth
