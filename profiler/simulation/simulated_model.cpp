// Implements SimulatedModel: places a model and runs its steps.
#include "profiler/simulation/simulated_model.h"

#include <algorithm>
#include <stdexcept>
#include <string>

#include "engine/device_plan.h"
#include "engine/forward/nextn_pass.h"
#include "engine/forward/streamed_layers.h"
#include "engine/prompt_step.h"
#include "engine/residency/memory_limit.h"
#include "engine/resolved_load.h"
#include "kernels/base/virtual_time.h"
#include "kernels/cuda/cuda_backend.h"
#include "kernels/cuda/hybrid/cuda_row_copier.h"
#include "profiler/machine/known_machine.h"

namespace hearth {
namespace {

ModelActivity activity_of(const SimulatedLoad& load) {
  if (load.mode == Sparsity::kDense) return dense_activity(load.model.spec);
  if (load.activity) return *load.activity;
  const std::optional<ActivityLaw> law = known_law(load.model.spec);
  return law ? law_activity(*law, load.model.spec) : dense_activity(load.model.spec);
}

}  // namespace

SimulatedModel::SimulatedModel(const SimulatedLoad& load)
    : load_(load),
      spec_(load.model.spec),
      activity_(activity_of(load)),
      choices_(spec_, load_.choices, &load_.expert_counts),
      planted_(activity_, spec_, load.assumptions, choices_),
      host_(load_.machine.host, load_.machine.ram_read_bytes_per_s(),
            load_.machine.gpu->to_device_pinned_bytes_per_s, planted_, choices_, load.trace),
      cpu_(1, supported_isas().front()) {
  cuda::set_simulated_results(
      {.product = [this](const cuda::SimulatedProduct& product) { planted_.product(product); },
       .route = [this](const cuda::SimulatedRoute& route) { planted_.route(route); }});
  place();
  place_neurons();
  place_experts();
  start_prefetcher();
  pass_->ffn().use({.sparsity = load_.mode, .thresholds = {}}, placed_neurons_);
  if (!resident_.empty()) pass_->ffn().share_experts(resident_, /*host_pinned=*/true);
  start_exchanger();
  pass_->ffn().look_ahead(prefetcher_ != nullptr);
  const KvBlockCounts& counts = kv_->counts();
  const StepLimits limits{.max_tokens = load_.load.prefill_chunk + load_.load.n_slots,
                          .max_logit_rows = pass_->max_logit_rows(),
                          .n_vocab = spec_.n_vocab,
                          .d_model = spec_.d_model,
                          .block_tokens = kKvBlockTokens,
                          .n_blocks = static_cast<int>(counts.n_blocks),
                          .window = counts.window};
  blocks_.emplace(limits, load_.load.n_slots);
  blocks_of_one_.emplace(limits, 1);
}

SimulatedModel::~SimulatedModel() { cuda::set_simulated_results({}); }

/// Makes the plan, and allocates memory for everything except the neurons.
void SimulatedModel::place() {
  const PlannedModel& model = load_.model;
  BundleParts parts = bundle_parts(load_.mode, load_.mode == Sparsity::kExact);
  layout_ = NeuronLayout::in_bundles(spec_, model.weights, parts, {}, host_);
  PlanInputs inputs{
      .spec = spec_,
      .weights = model.weights,
      .host = layout_,
      .mode = load_.mode,
      .bounds = model.nextn ? bounds_with_nextn(load_.load.bounds(), *model.nextn) : load_.load.bounds(),
      .kv_counts = kv_block_counts(spec_, load_.load, load_.load.contexts_to_plan()),
      .split = possible_split(spec_, load_.split),
      .prefetch = load_.prefetch,
      .order = nullptr,
      .experts = load_.load.experts,
      .nextn = model.nextn.get()};
  const auto budget = static_cast<size_t>(load_.vram_bytes);
  LoadOptions options;
  if (load_.solve) {
    options.placement = {.machine = load_.machine,
                         .activity = load_.activity,
                         .ram_bytes = load_.ram_bytes,
                         .assumptions = load_.assumptions,
                         .found = [this](const PlacementSolution& solution) { solution_ = solution; }};
  }
  plan_ = plan_device(options, inputs, budget);
  if (!plan_) {
    throw std::runtime_error(
        "The GPU's budget of " + bytes_text(static_cast<double>(budget)) +
        " is too small for any part of the model, which needs at least " +
        bytes_text(static_cast<double>(least_bytes(inputs))) +
        "; give more (--vram-budget), a smaller context or fewer contexts (--kv-contexts).");
  }
  n_kv_contexts_ = load_.load.contexts_to_plan();
  const auto counts_of = [&](int n) { return kv_block_counts(spec_, load_.load, n); };
  if (load_.load.decides_contexts())
    n_kv_contexts_ = add_contexts(*plan_, inputs, n_kv_contexts_, load_.load.n_slots, counts_of);
  device_ = cuda::make_device(
      cpu_, {.budget_bytes = plan_->device.total(),
             .graphs = load_.graphs,
             .cold_neurons = &host_,
             .missing_experts = &host_,
             .stream_from_tokens = streamed_from(model.weights, prompt_rates(load_.machine))});
  devices_.emplace(host_, *device_, plan_->on_device());
  const PassBounds bounds = plan_->bounds(inputs.bounds);  // includes whether a library multiplies
  const bool streams = bounds.stream_kv_bytes > 0;
  weights_.emplace(model.weights.placed(*devices_, spec_, load_.mode == Sparsity::kPredicted, streams));
  kv_.emplace(spec_, counts_of(n_kv_contexts_), *devices_);
  if (streams) pin_streamed_layers(*devices_, model.weights, *kv_);
  pass_.emplace(*devices_, spec_, *weights_, *kv_, bounds);
}

/// Like NeuronSetup::place(), but fills no bundles.
void SimulatedModel::place_neurons() {
  const bool gates_on_device =
      std::ranges::all_of(plan_->layers, [](const LayerPlacement& layer) { return layer.all_gates; });
  if (takes_file_views(load_.mode, plan_->shares)) {
    layout_ = NeuronLayout::in_file(spec_, load_.model.weights);
  } else if (load_.mode == Sparsity::kExact && plan_->shares && !gates_on_device) {
    layout_ =
        NeuronLayout::in_bundles(spec_, load_.model.weights, bundle_parts(load_.mode, false), {}, host_);
  }
  for (int i = 0; i < spec_.n_layers; ++i) {
    NeuronLayer host = layout_.layer(i);
    if (load_.mode != Sparsity::kPredicted) host.predictor_out = {};
    if (!devices_->on_device(i)) {
      placed_neurons_.add(host);
    } else if (spec_.has_experts() || host.dense_down.weight || !host.ffn.gate) {
      placed_neurons_.add_whole(host, device_->backend());
    } else {
      placed_neurons_.add_shared(host, plan_->layers[static_cast<size_t>(i)], device_->backend());
      if (HybridLayer* const hybrid = placed_neurons_.hybrid(i)) {
        const std::span<const std::byte> kept = layout_.kept(i);
        hybrid->host_pinned = device_->hybrid_ffn().pin(kept.data(), kept.size());
      }
    }
    planted_.learn(i, weights_->layers[static_cast<size_t>(i)], placed_neurons_.layer(i));
  }
}

/// Like NeuronSetup, but copies no weights.
void SimulatedModel::place_experts() {
  if (plan_->device.experts == 0) return;
  for (int i = 0; i < spec_.n_layers; ++i) {
    const std::vector<int32_t>& experts = plan_->layers[static_cast<size_t>(i)].experts;
    slabs_.emplace_back(load_.model.weights.layers[static_cast<size_t>(i)].mixture, experts,
                        static_cast<int>(experts.size()), device_->backend());
    slabs_.back().fill(load_.model.weights.layers[static_cast<size_t>(i)].mixture.experts, *device_, {});
    resident_.push_back(slabs_.back().view());
  }
}

void SimulatedModel::start_prefetcher() {
  if (!load_.prefetch) return;
  std::vector<const HybridLayer*> shared;
  std::vector<PrefetchLayer> layers;
  bool has_cache = false;
  for (int i = 0; i < spec_.n_layers; ++i) {
    const HybridLayer* hybrid = placed_neurons_.layer(i).hybrid;
    if (hybrid == nullptr) continue;
    has_cache = has_cache || hybrid->has_cache();
    shared.push_back(hybrid);
    layers.push_back({.layer = i,
                      .n_neurons = spec_.d_ff,
                      .hot = plan_->layers[static_cast<size_t>(i)].hot,
                      .n_hot = hybrid->n_hot,
                      .n_device_rows = hybrid->n_device_rows,
                      .cached = plan_->layers[static_cast<size_t>(i)].cached});
  }
  if (!has_cache) return;
  prefetcher_ = std::make_unique<Prefetcher>(layers, cuda::make_row_copier(shared, {}));
  VirtualTime::current()->wait_for_threads(2);
  device_->hybrid_ffn().set_prefetcher(prefetcher_.get());
}

/// Like ModelRuntime, exchanges the experts of exchangeable_layers().
void SimulatedModel::start_exchanger() {
  if (!load_.prefetch || slabs_.empty()) return;
  const auto host = [this](int layer) -> std::span<const Expert> {
    return load_.model.weights.layers[static_cast<size_t>(layer)].mixture.experts;
  };
  KnownExpertUse use;
  if (load_.activity) use = [this](int layer) { return load_.activity->shares_of(layer); };
  const std::vector<ExpertExchanger::Layer> layers = exchangeable_layers(host, slabs_, use);
  if (!ExpertExchanger::can_exchange(layers, *device_->hybrid_experts())) return;
  exchanger_.emplace(layers, *device_->hybrid_experts(), load_.machine.ram_read_bytes_per_s());
  pass_->ffn().observers().observe_choices(
      [this](int layer, const ExpertChoice& choice) { exchanger_->use(layer, choice); });
}

int SimulatedModel::n_shared_layers() const {
  return static_cast<int>(std::ranges::count_if(
      plan_->layers, [&](const LayerPlacement& layer) { return is_shared(layer, spec_); }));
}

void SimulatedModel::step(const std::vector<int>& positions, const std::vector<int>& n_tokens) {
  batch_.clear();
  (positions.size() == 1 ? *blocks_of_one_ : *blocks_).set_tables(batch_);
  for (size_t slot = 0; slot < positions.size(); ++slot) {
    pass_->states().restore(static_cast<int>(slot), /*snapshot=*/-1, positions[slot]);
    for (int i = 0; i < n_tokens[slot]; ++i) {
      batch_.tokens.push_back(static_cast<int32_t>((n_tokens_ + i) * 7919 % spec_.n_vocab));
      batch_.positions.push_back(positions[slot] + i);
      batch_.slots.push_back(static_cast<int32_t>(slot));
    }
    // If a sequence has several tokens in the step, they count as a prompt.
    for (int i = n_tokens[slot] > 1 ? n_tokens[slot] : 0; i > 0; --i)
      batch_.prompt_rows.push_back(batch_.n_tokens() - i);
    if (n_tokens[slot] > 0) batch_.logit_rows.push_back(static_cast<int32_t>(batch_.tokens.size()) - 1);
  }
  planted_.begin_step(n_tokens_);
  choices_.begin_step(batch_.slots, batch_.positions);
  if (prefetcher_) prefetcher_->begin_step();
  if (exchanger_) exchanger_->begin_step(batch_);
  pass_->run(batch_);
  if (prefetcher_) prefetcher_->end_step();
  if (exchanger_) exchanger_->end_step();
  n_tokens_ += static_cast<int64_t>(batch_.tokens.size());
}

}  // namespace hearth
