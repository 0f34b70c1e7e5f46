// See the header.
#include "engine/residency/plan.h"

#include <algorithm>
#include <cstdio>
#include <numeric>
#include <utility>

#include "engine/forward/kv_memory.h"
#include "engine/forward/nextn_pass.h"
#include "engine/neurons/expert_slabs.h"
#include "engine/residency/memory_limit.h"
#include "kernels/cuda/cuda_backend.h"
#include "kernels/cuda/ops/expert_types.h"

namespace hearth {
namespace {

/// Memory reserved for streaming.
struct Streams {
  size_t bytes = 0;     // size of each of two buffers
  size_t kv_bytes = 0;  // see Plan::stream_kv_bytes
};

bool any_shared(const PlanInputs& in, const std::vector<LayerPlacement>& layers) {
  return std::ranges::any_of(layers, [&](const LayerPlacement& layer) { return is_shared(layer, in.spec); });
}

bool any_experts(const PlanInputs& in, const std::vector<LayerPlacement>& layers) {
  if (in.nextn != nullptr && in.nextn_share == NextnShare::kWhole && in.nextn->spec.has_experts())
    return true;
  return std::ranges::any_of(layers, [](const LayerPlacement& layer) { return !layer.experts.empty(); });
}

/// Whether a layer has some experts on the device and others only in host memory.
bool any_missing(const PlanInputs& in, const std::vector<LayerPlacement>& layers) {
  return std::ranges::any_of(layers, [&](const LayerPlacement& layer) {
    return !layer.experts.empty() && layer.experts.size() < static_cast<size_t>(in.spec.mixture.n_experts);
  });
}

/// The bounds of a pass over these layers.
PassBounds bounds_of(const PlanInputs& in, const std::vector<LayerPlacement>& layers,
                     const Streams& streams) {
  PassBounds bounds = in.bounds;
  bounds.shares = any_shared(in, layers);
  bounds.holds_experts = any_experts(in, layers);
  bounds.stream_bytes = streams.bytes;
  bounds.stream_kv_bytes = streams.kv_bytes;
  return bounds;
}

/// Returns stream buffers of this size if there is something to stream through them; otherwise none.
Streams streams_of(const PlanInputs& in, const std::vector<LayerPlacement>& layers, size_t bytes) {
  if (any_shared(in, layers) || any_missing(in, layers)) return {.bytes = bytes};
  size_t kv_bytes = 0;  // of the host layer that has most
  for (int i = 0; i < in.spec.n_layers; ++i) {
    if (layers[static_cast<size_t>(i)].on_device) continue;
    kv_bytes = std::max(kv_bytes, KvMemory::layer_bytes(in.spec, in.kv_counts, i));
  }
  const auto widest_row = sizeof(float) * static_cast<size_t>(step_bounds(in.spec, in.bounds).max_cols);
  if (kv_bytes == 0 || bytes < widest_row || !can_stream_layers(in)) return {};
  return {.bytes = bytes, .kv_bytes = kv_bytes};
}

template <class Take>
size_t metered(const Take& take) {
  MemoryMeter meter;
  take(meter);
  return meter.bytes();
}

/// Counts the bytes of one layer's neurons and their tables. In a mixture, these are the neurons of the
/// shared expert, and experts are counted elsewhere.
void count_neurons(const PlanInputs& in, const NeuronLayer& from, const LayerPlacement& placement,
                   DeviceBytes& bytes) {
  if (!from.ffn.gate) return;  // a layer without an FFN
  if (from.dense_down.weight || in.spec.has_experts()) {
    bytes.hot += metered([&](MemoryMeter& meter) { NeuronLayout().add_whole(from, meter); });
    return;
  }
  NeuronLayer host = from;
  if (in.mode != Sparsity::kPredicted) host.predictor_out = {};
  const size_t predictor = metered([&](MemoryMeter& meter) { meter.resident(host.predictor_out); });
  const auto of = [&](const LayerPlacement& part) {
    return metered([&](MemoryMeter& meter) { NeuronLayout().add_shared(host, part, meter); }) - predictor;
  };
  LayerPlacement part;
  const size_t tables = of(part);
  part.all_gates = placement.all_gates;
  const size_t with_gates = of(part);
  part.n_cache = placement.n_cache;
  const size_t with_cache = of(part);
  const size_t all = of(placement);
  bytes.predictors += predictor;
  bytes.tables += tables;
  bytes.gates += with_gates - tables;
  bytes.cache += with_cache - with_gates;
  bytes.hot += all - with_cache;
}

/// Adds the bytes of a layer's experts that are only in host memory.
void count_missing(const PlanInputs& in, int index, const LayerPlacement& layer, Plan& plan) {
  const MixtureWeights& mixture = in.weights.layers[static_cast<size_t>(index)].mixture;
  size_t missing = experts_bytes(mixture);
  for (const int32_t e : layer.experts) missing -= expert_bytes(mixture.experts[static_cast<size_t>(e)]);
  plan.cold_bytes += missing;
  const std::string why = why_not_experts(in, index);
  if (why.empty()) return;
  plan.unplaceable_bytes += missing;
  if (in.experts && plan.why_unplaceable.empty()) plan.why_unplaceable = why;
}

}  // namespace

std::string why_not_experts(const PlanInputs& in, int layer) {
  const MixtureWeights& mixture = in.weights.layers[static_cast<size_t>(layer)].mixture;
  if (mixture.experts.empty()) return {};
  if (!in.experts) return "the CPU computes the experts";
  // In exact mode, the CPU adds the neurons of a shared expert one by one and skips neurons with value zero
  // (ExpertLayout). Devices do this only for the other experts; they compute a shared expert by matrix
  // products, whose sums are rounded differently.
  if (in.mode == Sparsity::kExact && !mixture.shared.empty())
    return "the CPU skips zeros in the shared expert (--sparsity exact; dense does not)";
  const MixtureSpec& of_all = in.spec.mixture;
  if (of_all.n_experts > cuda::kMostExperts || of_all.n_used > cuda::kMostExpertsUsed)
    return "the GPU chooses among " + std::to_string(cuda::kMostExperts) + " experts at most";
  return why_not_resident(mixture);
}

bool is_shared(const LayerPlacement& layer, const ModelSpec& spec) {
  return layer.on_device && static_cast<int64_t>(layer.hot.size()) < spec.d_ff;
}

bool can_stream_layers(const PlanInputs& in) {
  const ModelSpec& spec = in.spec;
  if (spec.latent || spec.recurrent || spec.has_experts() || spec.arch.looks_ahead) return false;
  if (!takes_file_views(in.mode, false) || in.kv_counts.window) return false;
  return std::ranges::all_of(in.weights.layers, [](const LayerWeights& layer) {
    return layer.down.weight && layer.gate.bias == nullptr && layer.up.bias == nullptr &&
           layer.down.bias == nullptr;
  });
}

bool takes_file_views(Sparsity mode, bool shares) { return mode == Sparsity::kDense && !shares; }

DeviceBytes device_bytes(const PlanInputs& in, const std::vector<LayerPlacement>& layers,
                         size_t stream_bytes) {
  const bool shares = any_shared(in, layers);
  const Streams streams = streams_of(in, layers, stream_bytes);
  const PassBounds bounds = bounds_of(in, layers, streams);
  const NeuronLayout in_file = NeuronLayout::in_file(in.spec, in.weights);
  const NeuronLayout& host = takes_file_views(in.mode, shares) ? in_file : in.host;
  DeviceBytes bytes;
  bytes.output = metered([&](MemoryMeter& meter) {
    in.weights.output_norm_on(meter, in.spec);
    in.weights.output_on(meter);
  });
  for (int i = 0; i < in.spec.n_layers; ++i) {
    const LayerPlacement& layer = layers[static_cast<size_t>(i)];
    if (!layer.on_device) {
      if (streams.kv_bytes > 0)
        bytes.attention += metered([&](MemoryMeter& meter) { in.weights.vectors_on(meter, in.spec, i); });
      continue;
    }
    const auto attention = [&](bool predictor) {
      return metered([&](MemoryMeter& meter) { in.weights.layer_on(meter, in.spec, i, predictor); });
    };
    const size_t without = attention(false);
    bytes.attention += without;
    if (i == 0) {
      bytes.attention += metered([&](MemoryMeter& meter) {
        in.weights.layer_projection_on(meter, in.spec);
        in.weights.stream_matrices_on(meter);
      });
    }
    if (in.mode == Sparsity::kPredicted) bytes.predictors += attention(true) - without;
    if (in.spec.layer(i).recurrent) {
      bytes.states += metered([&](MemoryMeter& meter) {
        const LayerStates states(meter, in.spec.recurrent, in.bounds.n_states);
      });
    }
    bytes.kv += 2 * piece_bytes(KvMemory::layer_bytes(in.spec, in.kv_counts, i));
    count_neurons(in, host.layer(i), layer, bytes);
    bytes.experts += metered([&](MemoryMeter& meter) {
      const ExpertSlabs slabs(in.weights.layers[static_cast<size_t>(i)].mixture, layer.experts,
                              static_cast<int>(layer.experts.size()), meter, in.mode);
    });
  }
  const PassBounds steps = bounds_of(in, layers, {});
  if (in.nextn != nullptr && in.nextn_share != NextnShare::kNone) {
    const KvBlockCounts counts{.n_blocks = in.kv_counts.n_blocks, .type = in.kv_counts.type};
    bytes.kv += in.nextn->heads.size() * 2 * piece_bytes(KvMemory::layer_bytes(in.nextn->spec, counts, 0));
    bytes.drafts = NextnPass::device_bytes(*in.nextn, in.nextn_share, in.weights, steps);
  }
  bytes.scratch = step_scratch_bytes(in.spec, in.weights, steps);
  bytes.stream =
      cuda::scratch_bytes(step_bounds(in.spec, bounds)) - cuda::scratch_bytes(step_bounds(in.spec, steps));
  return bytes;
}

size_t step_scratch_bytes(const ModelSpec& spec, const Weights& weights, const PassBounds& bounds) {
  return cuda::scratch_bytes(step_bounds(spec, bounds)) +
         metered([&](MemoryMeter& meter) { count_workspaces(meter, spec, weights, bounds); });
}

Plan placed_plan(const PlanInputs& in, Placement placement, size_t budget) {
  Plan plan;
  plan.device = device_bytes(in, placement.layers, placement.stream_bytes);
  plan.layers = std::move(placement.layers);
  plan.shares = any_shared(in, plan.layers);
  const Streams streams = streams_of(in, plan.layers, placement.stream_bytes);
  plan.stream_bytes = streams.bytes;
  plan.stream_kv_bytes = streams.kv_bytes;
  plan.budget_bytes = budget;
  plan.holds_experts = any_experts(in, plan.layers);
  if (in.nextn != nullptr) plan.nextn_share = in.nextn_share;
  for (int i = 0; i < in.spec.n_layers; ++i) {
    const LayerPlacement& layer = plan.layers[static_cast<size_t>(i)];
    if (!layer.on_device) continue;
    if (in.spec.has_experts()) {
      count_missing(in, i, layer, plan);
      continue;
    }
    const FfnNeurons& ffn = in.host.layer(i).ffn;
    const size_t down = ffn.down.rows ? row_bytes(ffn.down.rows.dtype, ffn.down.n_cols)
                                      : static_cast<size_t>(ffn.down.coded.n_cols_padded) *
                                            static_cast<size_t>(ffn.down.coded.bits) / 8;
    const size_t neuron = (layer.all_gates ? 0 : row_bytes(ffn.gate.dtype, ffn.gate.n_cols)) +
                          (ffn.up ? row_bytes(ffn.up.dtype, ffn.up.n_cols) : 0) + down;
    plan.cold_bytes += (static_cast<size_t>(in.spec.d_ff) - layer.hot.size()) * neuron;
  }
  return plan;
}

int add_contexts(Plan& plan, const PlanInputs& in, int n_contexts, int most,
                 const std::function<KvBlockCounts(int n)>& counts_of) {
  if (!plan.is_complete()) return n_contexts;
  const auto with = [&](int n) {
    PlanInputs more = in;
    more.kv_counts = counts_of(n);
    return device_bytes(more, plan.layers, plan.stream_bytes);
  };
  int n = n_contexts;
  while (n < most && with(n + 1).total() <= plan.budget_bytes) ++n;
  if (n > n_contexts) plan.device = with(n);
  return n;
}

DeviceSplit possible_split(const ModelSpec& spec, DeviceSplit asked) {
  const bool by_neurons = spec.has_equal_ffns() && !spec.stays_whole();
  return by_neurons || spec.has_experts() ? asked : DeviceSplit::kLayers;
}

LayerPlacement whole_layer(const ModelSpec& spec) {
  LayerPlacement layer{.hot = std::vector<int32_t>(static_cast<size_t>(spec.d_ff))};
  std::iota(layer.hot.begin(), layer.hot.end(), 0);
  return layer;
}

LayerPlacement whole_layer(const PlanInputs& in, int layer) {
  LayerPlacement whole = whole_layer(in.spec);
  if (!why_not_experts(in, layer).empty()) return whole;
  whole.experts.resize(in.weights.layers[static_cast<size_t>(layer)].mixture.experts.size());
  std::iota(whole.experts.begin(), whole.experts.end(), 0);
  return whole;
}

Placement least_placement(const PlanInputs& in) {
  const auto n_layers = static_cast<size_t>(in.spec.n_layers);
  if (in.spec.stays_whole()) return std::vector<LayerPlacement>(n_layers, whole_layer(in.spec));
  std::vector<LayerPlacement> layers(n_layers, {.on_device = false});
  const bool whole = in.split == DeviceSplit::kLayers || in.spec.has_experts();
  layers.back() = whole ? whole_layer(in.spec) : LayerPlacement();
  return layers;
}

size_t least_bytes(const PlanInputs& in) { return device_bytes(in, least_placement(in).layers, 0).total(); }

int Plan::n_device_layers() const {
  return static_cast<int>(
      std::ranges::count_if(layers, [](const LayerPlacement& layer) { return layer.on_device; }));
}

bool Plan::whole() const {
  return !shares && cold_bytes == 0 && n_device_layers() == static_cast<int>(layers.size());
}

bool Plan::is_complete() const {
  return !shares && cold_bytes == unplaceable_bytes && n_device_layers() == static_cast<int>(layers.size());
}

std::vector<std::string> Plan::lines(const ModelSpec& spec) const {
  const auto text = [](size_t bytes) { return bytes_text(static_cast<double>(bytes)); };
  std::vector<std::string> out;
  out.push_back("GPU: " + text(device.total()) + " of a budget of " + text(budget_bytes) + ", " +
                held_text(spec));
  out.push_back("GPU, for every token: attention " + text(device.attention) + ", output " +
                text(device.output) + ", KV cache " + text(device.kv) +
                (device.states > 0 ? ", recurrent states " + text(device.states) : "") + ", predictors " +
                text(device.predictors) +
                (device.drafts > 0 ? ", the layer that predicts later tokens " + text(device.drafts) : "") +
                ", scratch " + text(device.scratch));
  out.push_back(spec.has_experts() ? experts_line(spec) : neurons_line(spec));
  if (whole()) return out;
  const int n_on_cpu = static_cast<int>(layers.size()) - n_device_layers();
  out.push_back("CPU: " + text(cold_bytes) + (spec.has_experts() ? " of experts" : " of cold neurons") +
                (n_on_cpu > 0 ? ", and all of the first " + std::to_string(n_on_cpu) + " layers" : "") +
                (stream_kv_bytes > 0 ? ", which come to the GPU in steps of prompts" : ""));
  if (!why_unplaceable.empty())
    out.push_back("CPU: " + text(unplaceable_bytes) + " of experts cannot be on the GPU: " + why_unplaceable);
  return out;
}

std::string Plan::held_text(const ModelSpec& spec) const {
  if (whole()) return "the whole model";
  const std::string layers_of_device =
      std::to_string(n_device_layers()) + " of " + std::to_string(layers.size()) + " layers";
  if (!spec.has_experts()) return "the attention of " + layers_of_device;
  if (device.experts == 0) return "all but the experts of " + layers_of_device;
  return "all but the missing experts of " + layers_of_device;
}

std::string Plan::experts_line(const ModelSpec& spec) const {
  const auto text = [](size_t bytes) { return bytes_text(static_cast<double>(bytes)); };
  std::string line = "GPU: dense FFNs and shared experts " + text(device.hot);
  if (device.experts == 0) return line;
  int64_t n_resident = 0, n_experts = 0;
  for (size_t i = 0; i < layers.size(); ++i) {
    n_resident += static_cast<int64_t>(layers[i].experts.size());
    n_experts += spec.layer(static_cast<int>(i)).experts ? spec.mixture.n_experts : 0;
  }
  return line + ", " + std::to_string(n_resident) + " of " + std::to_string(n_experts) + " experts " +
         text(device.experts);
}

std::string Plan::neurons_line(const ModelSpec& spec) const {
  const auto text = [](size_t bytes) { return bytes_text(static_cast<double>(bytes)); };
  size_t n_hot = 0, n_cache = 0;
  for (const LayerPlacement& layer : layers) {
    n_hot += layer.hot.size();
    n_cache += static_cast<size_t>(layer.n_cache);
  }
  const double n_neurons = static_cast<double>(layers.size()) * spec.d_ff;
  char percent[32];
  std::snprintf(percent, sizeof percent, "%.1f %%", 100.0 * static_cast<double>(n_hot) / n_neurons);
  return "GPU, neurons: " + text(device.hot) + " hot (" + percent + " of all)" +
         (device.gates > 0 ? ", gates of all " + text(device.gates) : "") + ", a cache of " +
         std::to_string(n_cache) + " (" + text(device.cache) + "), tables " + text(device.tables) +
         ", buffers for prompts " + text(device.stream);
}

std::string Plan::json(const ModelSpec& spec) const {
  std::string out = "{\n  \"budget_bytes\": " + std::to_string(budget_bytes) + ",\n  \"device_bytes\": {";
  const std::pair<const char*, size_t> parts[] = {
      {"attention", device.attention},   {"output", device.output},   {"predictors", device.predictors},
      {"keys_and_values", device.kv},    {"states", device.states},   {"gates", device.gates},
      {"hot_neurons", device.hot},       {"experts", device.experts}, {"neuron_cache", device.cache},
      {"drafts", device.drafts},         {"tables", device.tables},   {"scratch", device.scratch},
      {"stream_buffers", device.stream}, {"total", device.total()}};
  for (const auto& [name, bytes] : parts) {
    out += (out.ends_with('{') ? "\"" : ", \"") + std::string(name) + "\": " + std::to_string(bytes);
  }
  out += "},\n  \"cold_neuron_bytes\": " + std::to_string(cold_bytes) +
         ",\n  \"neurons_per_layer\": " + std::to_string(spec.d_ff) + ",\n  \"layers\": [";
  for (size_t i = 0; i < layers.size(); ++i) {
    const LayerPlacement& layer = layers[i];
    out += std::string(i == 0 ? "\n" : ",\n") + "    {\"attention\": \"" + (layer.on_device ? "GPU" : "CPU") +
           "\", \"all_gates\": " + (layer.all_gates ? "true" : "false") +
           ", \"hot\": " + std::to_string(layer.hot.size()) +
           ", \"cache\": " + std::to_string(layer.n_cache) +
           ", \"experts\": " + std::to_string(layer.experts.size()) + "}";
  }
  return out + "\n  ]\n}\n";
}

PassBounds Plan::bounds(PassBounds steps) const {
  steps.shares = shares;
  steps.holds_experts = holds_experts;
  steps.nextn_on_cpu = steps.beside_nextn && nextn_share == NextnShare::kNone;
  steps.stream_bytes = stream_bytes;
  steps.stream_kv_bytes = stream_kv_bytes;
  return steps;
}

std::vector<bool> Plan::on_device() const {
  std::vector<bool> flags;
  for (const LayerPlacement& layer : layers) flags.push_back(layer.on_device);
  return flags;
}

}  // namespace hearth
