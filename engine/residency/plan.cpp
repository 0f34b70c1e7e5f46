// See the header.
#include "engine/residency/plan.h"

#include <algorithm>
#include <cstdio>
#include <numeric>
#include <utility>

#include "engine/forward/kv_memory.h"
#include "engine/residency/memory_limit.h"
#include "kernels/cuda/cuda_backend.h"

namespace hearth {
namespace {

/// Bytes of each stream buffer: large enough to copy at the link's speed, small compared with a GPU's memory.
constexpr size_t kStreamBytes = size_t{64} << 20;
/// Share of the memory left for neurons that goes to the neuron cache, and the share that both stream buffers
/// may take.
constexpr size_t kCacheShare = 8, kStreamShare = 8;
/// Share of the budget that each buffer for the weights of whole layers may take.
constexpr size_t kLayerStreamShare = 32;

int64_t d_ff_of(const PlanInputs& in) { return in.spec.d_ff; }

/// The first n neurons of the layout, which are the most active ones if activity is known.
std::vector<int32_t> hottest(int64_t n) {
  std::vector<int32_t> ids(static_cast<size_t>(n));
  std::iota(ids.begin(), ids.end(), 0);
  return ids;
}

/// The initial neurons of a cache: the most active ones after the n_hot hot ones. A quarter of the cache
/// stays free for arriving neurons, as it does later.
std::vector<int32_t> cached_at_first(int64_t n_cache, int64_t n_hot) {
  std::vector<int32_t> ids(static_cast<size_t>(n_cache - n_cache / 4));
  std::iota(ids.begin(), ids.end(), static_cast<int32_t>(n_hot));
  return ids;
}

bool has_gates_that_tell(const PlanInputs& in) {
  return in.mode == Sparsity::kExact && in.spec.activation.has_zeros();
}

/// Memory reserved for streaming.
struct Streams {
  size_t bytes = 0;     // of each of two buffers
  size_t kv_bytes = 0;  // see Plan::stream_kv_bytes
};

PassBounds bounds_of(const PlanInputs& in, bool shares, const Streams& streams) {
  PassBounds bounds = in.bounds;
  bounds.shares = shares;
  bounds.stream_bytes = streams.bytes;
  bounds.stream_kv_bytes = streams.kv_bytes;
  return bounds;
}

bool any_shared(const PlanInputs& in, const std::vector<LayerPlacement>& layers) {
  return std::ranges::any_of(layers, [&](const LayerPlacement& layer) { return is_shared(layer, in.spec); });
}

/// Returns buffers of this size if there is something to stream through them.
Streams streams_of(const PlanInputs& in, const std::vector<LayerPlacement>& layers, size_t bytes) {
  if (any_shared(in, layers)) return {.bytes = bytes};
  const auto on_host = std::ranges::find(layers, false, &LayerPlacement::on_device);
  const auto widest_row = sizeof(float) * static_cast<size_t>(step_bounds(in.spec, in.bounds).max_cols);
  if (on_host == layers.end() || bytes < widest_row || !takes_file_views(in.mode, false) ||
      !can_stream_layers(in.spec, in.weights) || in.kv_counts.window)
    return {};
  const auto layer = static_cast<int>(on_host - layers.begin());
  return {.bytes = bytes, .kv_bytes = KvMemory::layer_bytes(in.spec, in.kv_counts, layer)};
}

template <class Take>
size_t metered(const Take& take) {
  MemoryMeter meter;
  take(meter);
  return meter.bytes();
}

/// Counts the bytes of one layer's neurons and their tables. In a mixture, a device holds only the shared
/// expert.
void count_neurons(const PlanInputs& in, const NeuronLayer& from, const LayerPlacement& placement,
                   DeviceBytes& bytes) {
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

}  // namespace

bool by_layers(DeviceSplit split, Sparsity mode) {
  const bool reads_most = mode == Sparsity::kDense || mode == Sparsity::kCalibrated;
  return split == DeviceSplit::kLayers || (split == DeviceSplit::kAuto && reads_most);
}

bool is_shared(const LayerPlacement& layer, const ModelSpec& spec) {
  return layer.on_device && static_cast<int64_t>(layer.hot.size()) < spec.d_ff;
}

bool can_stream_layers(const ModelSpec& spec, const Weights& weights) {
  if (spec.latent || spec.has_experts() || spec.arch.looks_ahead) return false;
  return std::ranges::all_of(weights.layers, [](const LayerWeights& layer) {
    return layer.down.weight && layer.gate.bias == nullptr && layer.up.bias == nullptr &&
           layer.down.bias == nullptr;
  });
}

bool takes_file_views(Sparsity mode, bool shares) { return mode == Sparsity::kDense && !shares; }

DeviceBytes device_bytes(const PlanInputs& in, const std::vector<LayerPlacement>& layers,
                         size_t stream_bytes) {
  const bool shares = any_shared(in, layers);
  const Streams streams = streams_of(in, layers, stream_bytes);
  const PassBounds bounds = bounds_of(in, shares, streams);
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
    if (in.mode == Sparsity::kPredicted) bytes.predictors += attention(true) - without;
    bytes.kv += 2 * piece_bytes(KvMemory::layer_bytes(in.spec, in.kv_counts, i));
    count_neurons(in, host.layer(i), layer, bytes);
  }
  const PassBounds steps = bounds_of(in, shares, {});
  bytes.scratch = step_scratch_bytes(in.spec, in.weights, steps);
  bytes.stream =
      cuda::scratch_bytes(step_bounds(in.spec, bounds)) - cuda::scratch_bytes(step_bounds(in.spec, steps));
  return bytes;
}

size_t step_scratch_bytes(const ModelSpec& spec, const Weights& weights, const PassBounds& bounds) {
  return cuda::scratch_bytes(step_bounds(spec, bounds)) + metered([&](MemoryMeter& meter) {
           const Workspace of_layers(meter, spec, bounds.max_tokens);
           const FfnWorkspace of_ffn(meter, spec, weights, bounds.max_tokens);
           const MixtureWorkspace of_mixtures(meter, spec, bounds.max_tokens);
           const OutputWorkspace of_output(meter, spec, bounds.max_logit_rows);
         });
}

namespace {

/// Returns placements that give the device the layers from `first` on, with the given number of neurons.
std::vector<LayerPlacement> placements(const PlanInputs& in, int first, bool gates, int64_t n_hot,
                                       int64_t n_cache) {
  std::vector<LayerPlacement> layers(static_cast<size_t>(in.spec.n_layers));
  for (int i = 0; i < in.spec.n_layers; ++i) {
    LayerPlacement& layer = layers[static_cast<size_t>(i)];
    layer.on_device = i >= first;
    if (!layer.on_device) continue;
    const bool all = n_hot == d_ff_of(in);
    layer.all_gates = gates && !all;
    layer.hot = hottest(n_hot);
    layer.n_cache = all ? 0 : std::min(n_cache, d_ff_of(in) - n_hot);
    layer.cached = cached_at_first(layer.n_cache, n_hot);
  }
  return layers;
}

Plan plan_of(const PlanInputs& in, std::vector<LayerPlacement> layers, size_t stream_bytes, size_t budget) {
  Plan plan;
  plan.device = device_bytes(in, layers, stream_bytes);
  plan.layers = std::move(layers);
  plan.shares = any_shared(in, plan.layers);
  const Streams streams = streams_of(in, plan.layers, stream_bytes);
  plan.stream_bytes = streams.bytes;
  plan.stream_kv_bytes = streams.kv_bytes;
  plan.budget_bytes = budget;
  for (int i = 0; i < in.spec.n_layers; ++i) {
    const LayerPlacement& layer = plan.layers[static_cast<size_t>(i)];
    if (!layer.on_device) continue;
    if (in.spec.has_experts()) {
      plan.cold_bytes += experts_bytes(in.weights.layers[static_cast<size_t>(i)].mixture);
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

/// Returns the largest n in [low, high] for which holds(n); low - 1 if there is none. REQUIRES: if holds(n),
/// it holds for all smaller n too.
template <class Holds>
int64_t largest(int64_t low, int64_t high, const Holds& holds) {
  int64_t good = low - 1, bad = high + 1;
  while (good + 1 < bad) {
    const int64_t middle = good + (bad - good) / 2;
    (holds(middle) ? good : bad) = middle;
  }
  return good;
}

}  // namespace

std::optional<Plan> make_plan(const PlanInputs& in, size_t budget) {
  const int n_layers = in.spec.n_layers;
  const int64_t d_ff = d_ff_of(in);
  const auto bytes = [&](int first, bool gates, int64_t n_hot, int64_t n_cache, size_t stream) {
    return device_bytes(in, placements(in, first, gates, n_hot, n_cache), stream).total();
  };
  const auto plan = [&](int first, bool gates, int64_t n_hot, int64_t n_cache, size_t stream) {
    return plan_of(in, placements(in, first, gates, n_hot, n_cache), stream, budget);
  };

  // 1. The whole model, or its last layers whole. For mixtures of experts, everything but the experts.
  const bool whole_layers = by_layers(in.split, in.mode) || in.spec.has_experts();
  const int64_t n_whole = largest(1, whole_layers ? n_layers : 0, [&](int64_t n) {
    return bytes(n_layers - static_cast<int>(n), false, d_ff, 0, 0) <= budget;
  });
  if (n_whole > 0) {
    // In long steps, the other layers' weights pass through buffers.
    const size_t stream = std::min(kStreamBytes, budget / kLayerStreamShare) / kPieceBytes * kPieceBytes;
    const int64_t n_beside = largest(1, std::min<int64_t>(n_whole, n_layers - 1), [&](int64_t n) {
      return bytes(n_layers - static_cast<int>(n), false, d_ff, 0, stream) <= budget;
    });
    if (n_whole < n_layers && n_beside > 0)
      return plan(n_layers - static_cast<int>(n_beside), false, d_ff, 0, stream);
    return plan(n_layers - static_cast<int>(n_whole), false, d_ff, 0, 0);
  }
  if (bytes(0, false, d_ff, 0, 0) <= budget) return plan(0, false, d_ff, 0, 0);
  if (in.split == DeviceSplit::kLayers || in.spec.has_experts()) return std::nullopt;

  // 2. The attention of as many layers as fit.
  const int64_t n_device = largest(1, n_layers, [&](int64_t n) {
    return bytes(n_layers - static_cast<int>(n), false, 0, 0, 0) <= budget;
  });
  if (n_device < 1) return std::nullopt;
  const int first = n_layers - static_cast<int>(n_device);

  // 3. Gates, if they determine the active neurons.
  const bool gates = has_gates_that_tell(in) && bytes(first, true, 0, 0, 0) <= budget;
  const size_t base = bytes(first, gates, 0, 0, 0);

  // 4. Stream buffers, a neuron cache, and hot neurons with the memory that is left.
  const size_t left = budget - base;
  size_t stream = std::min(kStreamBytes, left / kStreamShare / 2) / kPieceBytes * kPieceBytes;
  if (bytes(first, gates, 0, 0, stream) > budget) stream = 0;
  int64_t n_cache = 0;
  // If all gates and ups are read for every token, a neuron that arrives late saves little.
  if (in.prefetch && in.mode != Sparsity::kDense && in.mode != Sparsity::kCalibrated) {
    n_cache = std::max<int64_t>(0, largest(0, d_ff, [&](int64_t n) {
                                  return bytes(first, gates, 0, n, stream) <= base + left / kCacheShare &&
                                         bytes(first, gates, 0, n, stream) <= budget;
                                }));
  }
  const int64_t n_hot = std::max<int64_t>(
      0, largest(0, d_ff - 1, [&](int64_t n) { return bytes(first, gates, n, n_cache, stream) <= budget; }));
  return plan(first, gates, n_hot, n_cache, stream);
}

Plan placed_plan(const PlanInputs& in, Placement placement, size_t budget) {
  return plan_of(in, std::move(placement.layers), placement.stream_bytes, budget);
}

int add_contexts(Plan& plan, const PlanInputs& in, int n_contexts, int most,
                 const std::function<KvBlockCounts(int n)>& counts_of) {
  if (!plan.is_complete(in.spec)) return n_contexts;
  const auto with = [&](int64_t n) {
    PlanInputs more = in;
    more.kv_counts = counts_of(static_cast<int>(n));
    return device_bytes(more, plan.layers, plan.stream_bytes);
  };
  const int64_t n = largest(int64_t{n_contexts} + 1, most,
                            [&](int64_t contexts) { return with(contexts).total() <= plan.budget_bytes; });
  if (n > n_contexts) plan.device = with(n);
  return static_cast<int>(std::max<int64_t>(n, n_contexts));
}

size_t least_bytes(const PlanInputs& in) {
  const int64_t n_hot = in.spec.has_experts() ? d_ff_of(in) : 0;
  return device_bytes(in, placements(in, in.spec.n_layers - 1, false, n_hot, 0), 0).total();
}

int Plan::n_device_layers() const {
  return static_cast<int>(
      std::ranges::count_if(layers, [](const LayerPlacement& layer) { return layer.on_device; }));
}

bool Plan::whole() const {
  return !shares && cold_bytes == 0 && n_device_layers() == static_cast<int>(layers.size());
}

bool Plan::is_complete(const ModelSpec& spec) const {
  return !shares && (cold_bytes == 0 || spec.has_experts()) &&
         n_device_layers() == static_cast<int>(layers.size());
}

std::vector<std::string> Plan::lines(const ModelSpec& spec) const {
  const auto text = [](size_t bytes) { return bytes_text(static_cast<double>(bytes)); };
  const std::string layers_of_device =
      std::to_string(n_device_layers()) + " of " + std::to_string(layers.size()) + " layers";
  std::vector<std::string> out;
  out.push_back("GPU: " + text(device.total()) + " of a budget of " + text(budget_bytes) + ", " +
                (whole()              ? "the whole model"
                 : spec.has_experts() ? "all but the experts of " + layers_of_device
                                      : "the attention of " + layers_of_device));
  out.push_back("GPU, for every token: attention " + text(device.attention) + ", output " +
                text(device.output) + ", keys and values " + text(device.kv) + ", predictors " +
                text(device.predictors) + ", scratch " + text(device.scratch));
  out.push_back(spec.has_experts() ? "GPU: dense FFNs and shared experts " + text(device.hot)
                                   : neurons_line(spec));
  if (whole()) return out;
  const int n_on_cpu = static_cast<int>(layers.size()) - n_device_layers();
  out.push_back("CPU: " + text(cold_bytes) + (spec.has_experts() ? " of experts" : " of cold neurons") +
                (n_on_cpu > 0 ? ", and all of the first " + std::to_string(n_on_cpu) + " layers" : "") +
                (stream_kv_bytes > 0 ? ", which come to the GPU in steps of prompts" : ""));
  return out;
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
      {"attention", device.attention},   {"output", device.output}, {"predictors", device.predictors},
      {"keys_and_values", device.kv},    {"gates", device.gates},   {"hot_neurons", device.hot},
      {"neuron_cache", device.cache},    {"tables", device.tables}, {"scratch", device.scratch},
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
           ", \"cache\": " + std::to_string(layer.n_cache) + "}";
  }
  return out + "\n  ]\n}\n";
}

PassBounds Plan::bounds(PassBounds steps) const {
  steps.shares = shares;
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
