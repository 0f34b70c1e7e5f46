// See the header.
#include "engine/placement/layer_options.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <numeric>
#include <utility>

#include "engine/neurons/expert_slabs.h"
#include "engine/placement/host_costs.h"
#include "engine/residency/plan.h"
#include "kernels/cpu/isa/matmul_kernels.h"
#include "kernels/cuda/cuda_backend.h"
#include "kernels/cuda/ops/expert_types.h"
#include "kernels/cuda/ops/kernel_class.h"
#include "kernels/quant/coded_columns.h"

namespace hearth {
namespace {

/// All numbers that determine the LayerFacts of a layer: layers with equal numbers have equal facts.
using Kind = std::vector<int64_t>;

Kind kind_of(const PlanInputs& in, int index) {
  const LayerWeights& w = in.weights.layers[static_cast<size_t>(index)];
  const MixtureWeights& mixture = w.mixture;
  Kind kind{in.spec.layer(index).window,
            in.spec.layer(index).recurrent,
            in.spec.attends(index),
            static_cast<int64_t>(mixture.experts.size()),
            why_not_experts(in, index).empty(),
            w.q_norm != nullptr};
  const auto add = [&](const Matrix& matrix) {
    kind.push_back(matrix ? static_cast<int64_t>(matrix.dtype) : -1);
    kind.push_back(matrix ? matrix.n_rows : 0);
  };
  for (const std::vector<Expert>* experts : {&mixture.experts, &mixture.shared}) {
    const Expert one = experts->empty() ? Expert() : experts->front();
    for (const Matrix* matrix : {&one.gate, &one.up, &one.down}) add(*matrix);
  }
  add(mixture.router.weight);
  for (const Matrix& matrix : attention_matrices(w)) add(matrix);
  for (const Matrix* matrix : {&w.gate.weight, &w.up.weight, &w.down.weight, &w.down_rows.weight,
                               &w.predictor_in, &w.predictor_out}) {
    add(*matrix);
  }
  return kind;
}

double bytes(const Matrix& matrix) { return matrix ? static_cast<double>(matrix.bytes()) : 0; }
double weights(const Matrix& matrix) {
  return matrix ? static_cast<double>(matrix.n_rows) * static_cast<double>(matrix.n_cols) : 0;
}

int64_t row_of(const Matrix& matrix) {
  return matrix ? static_cast<int64_t>(row_bytes(matrix.dtype, matrix.n_cols)) : 0;
}

/// An upper bound on the bytes that rounding up to multiples of kPieceBytes adds to a layer. The gate, up and
/// down rows of hot neurons are rounded separately.
constexpr int64_t kRounding = 3 * static_cast<int64_t>(kPieceBytes);

class FactsMaker {
 public:
  FactsMaker(const PlanInputs& in, const PlacementAssumptions& assumptions, bool order_known)
      : all_(in), in_(without_nextn(in)), assumptions_(assumptions), order_known_(order_known) {}

  LayerFacts layer(int index) const {
    return in_.spec.has_experts() ? mixture_layer(index) : neuron_layer(index);
  }

  LayerFacts mixture_layer(int index) const {
    const LayerWeights& w = in_.weights.layers[static_cast<size_t>(index)];
    LayerFacts facts = attention(index);
    facts.norms_qk = w.q_norm != nullptr;
    for (const Linear* linear : {&w.mixture.router, &w.mixture.shared_gate}) {
      facts.attention_read += bytes(linear->weight);
      facts.attention_weights += weights(linear->weight);
    }
    const auto add_shared = [&](const Matrix& matrix) {
      facts.shared_read += bytes(matrix);
      facts.shared_weights += weights(matrix);
    };
    for (const Linear* linear : {&w.gate, &w.up, &w.down}) add_shared(linear->weight);
    for (const Expert& expert : w.mixture.shared) {
      for (const Matrix* matrix : {&expert.gate, &expert.up, &expert.down}) add_shared(*matrix);
    }
    facts.ffn_type = facts.attention_type;
    if (!w.mixture.experts.empty()) {
      const Expert& one = w.mixture.experts.front();
      facts.ffn_weights = in_.spec.mixture.n_used * (weights(one.gate) + weights(one.up) + weights(one.down));
      facts.ffn_type = one.up.dtype;
      facts.ram_neuron = static_cast<int64_t>(expert_bytes(one));
      facts.expert = static_cast<double>(facts.ram_neuron);
      facts.experts_read = facts.expert * in_.spec.mixture.n_used;
    }
    count_device(index, facts);
    count_experts(index, facts);
    facts.ram_shared = static_cast<int64_t>(experts_bytes(w.mixture));
    facts.ram_whole = facts.ram_shared + static_cast<int64_t>(facts.attention_read + facts.shared_read) +
                      sequence_bytes(index);
    return facts;
  }

  LayerFacts neuron_layer(int index) const {
    const LayerWeights& w = in_.weights.layers[static_cast<size_t>(index)];
    const FfnNeurons& ffn = in_.host.layer(index).ffn;
    LayerFacts facts = attention(index);
    facts.ffn_type = w.up.weight ? w.up.weight.dtype : facts.attention_type;
    facts.down_is_quantized = ffn.down.rows && uses_quantized_activations(ffn.down.rows.dtype);
    if (in_.mode == Sparsity::kPredicted)
      facts.predictor_read = bytes(w.predictor_in) + bytes(w.predictor_out);
    const int64_t gate = row_of(ffn.gate), up = row_of(ffn.up);
    int64_t down = row_of(ffn.down.rows);
    if (!ffn.down.rows) {
      down = ffn.down.coded.n_cols_padded * ffn.down.coded.bits / 8;
      facts.scales_read = static_cast<double>(column_scales_bytes(w.down.weight));
    }
    facts.gate = static_cast<double>(gate);
    facts.up = static_cast<double>(up);
    facts.down = static_cast<double>(down);
    facts.ffn_weights = weights(ffn.gate) + weights(ffn.up);
    if (in_.spec.layer(index).has_ffn)
      facts.ffn_weights +=
          static_cast<double>(in_.spec.d_ff_of(index)) * static_cast<double>(in_.spec.d_model);
    count_device(index, facts);

    const int64_t kv = sequence_bytes(index);
    const int64_t gates_apart = in_.mode == Sparsity::kExact ? gate * in_.spec.d_ff : 0;
    const auto predictor = static_cast<int64_t>(facts.predictor_read);
    facts.ram_neuron = (gates_apart > 0 ? 0 : gate) + up + down;
    facts.ram_shared = gates_apart + predictor + static_cast<int64_t>(facts.scales_read);
    facts.ram_whole = facts.ram_shared + facts.ram_neuron * in_.spec.d_ff_of(index) +
                      static_cast<int64_t>(facts.attention_read) + kv;
    facts.gives_back = order_known_ || in_.mode == Sparsity::kDense;
    return facts;
  }

  /// Counts the bytes that every placement needs, and the bytes of the whole model on the device.
  void count_fixed(ModelFacts& facts) const {
    const auto n_layers = static_cast<size_t>(in_.spec.n_layers);
    std::vector<LayerPlacement> layers(n_layers, {.on_device = false});
    const LayerPlacement whole = whole_layer(in_.spec);
    const bool shares = !in_.spec.has_experts() && !by_layers(in_.split, in_.mode);
    layers.back() = shares ? LayerPlacement{.on_device = true} : whole;
    const DeviceBytes one = device_bytes(all_, layers, 0);
    const size_t nextn_kv = one.kv - device_bytes(in_, layers, 0).kv;
    facts.vram_fixed = static_cast<int64_t>(one.output + one.scratch + one.drafts + nextn_kv) +
                       (shares ? library_scratch() : 0);
    facts.vram_least = static_cast<int64_t>(least_bytes(all_)) + library_scratch();
    for (size_t i = 0; i < n_layers; ++i) layers[i] = whole_layer(in_, static_cast<int>(i));
    const DeviceBytes all = device_bytes(all_, layers, 0);
    facts.vram_whole = static_cast<int64_t>(all.total());
    if (all.experts > 0) facts.vram_experts = static_cast<int64_t>(all.scratch - one.scratch);
    facts.ram_fixed = static_cast<int64_t>(
        bytes(in_.weights.token_embedding) + bytes(in_.weights.position_embedding) +
        bytes(in_.weights.layer_embeddings) +
        ForwardPass::bytes_needed(in_.spec, in_.bounds.max_tokens, in_.bounds.max_logit_rows) +
        in_.bounds.n_snapshots * StateMemory::snapshot_bytes(in_.spec));
  }

 private:
  LayerFacts attention(int index) const {
    LayerFacts facts;
    const auto matrices = attention_matrices(in_.weights.layers[static_cast<size_t>(index)]);
    for (const Matrix& matrix : matrices) {
      facts.attention_read += bytes(matrix);
      facts.attention_weights += weights(matrix);
    }
    if (in_.spec.layer(index).recurrent) {  // reads and writes its state
      facts.kv_read = 2.0 * static_cast<double>(in_.spec.recurrent.state_bytes());
    }
    if (in_.spec.attends(index)) {
      facts.kv_read += kv_read(index);
      facts.attention_instructions =
          cuda::attention_instructions(filled(index), in_.spec.heads_of(index), in_.spec.head_dim_of(index));
    }
    facts.attention_type = std::ranges::max(matrices, {}, [](const Matrix& matrix) {
                             return matrix ? matrix.bytes() : 0;
                           }).dtype;
    return facts;
  }

  /// Scratch memory that a matrix library for prompts takes in placements in which the CPU and the device
  /// share no layer's neurons. It is counted for every placement that may share neurons, because only the
  /// solver finds out whether the placement does.
  int64_t library_scratch() const {
    PassBounds bounds = in_.bounds;
    bounds.shares = false;
    const size_t with = cuda::scratch_bytes(step_bounds(in_.spec, bounds));
    bounds.library = false;
    return static_cast<int64_t>(with - cuda::scratch_bytes(step_bounds(in_.spec, bounds)));
  }

  /// The bytes of the layer's keys and values or states, for all sequences.
  int64_t sequence_bytes(int index) const {
    const auto kv = 2 * static_cast<int64_t>(KvMemory::layer_bytes(in_.spec, in_.kv_counts, index));
    if (!in_.spec.layer(index).recurrent) return kv;
    MemoryMeter meter;
    const LayerStates states(meter, in_.spec.recurrent, in_.bounds.n_states);
    return kv + static_cast<int64_t>(meter.bytes());
  }

  /// The number of positions that a decoded token attends to.
  double filled(int index) const {
    const int window = in_.spec.layer(index).window;
    const double tokens = in_.bounds.max_context * assumptions_.context_filled;
    return window > 0 ? std::min<double>(tokens, window) : tokens;
  }
  double kv_read(int index) const {
    return kv_position_bytes(in_.spec, index, in_.kv_counts.type) * filled(index);
  }

  void count_device(int index, LayerFacts& facts) const {
    std::vector<LayerPlacement> layers(static_cast<size_t>(in_.spec.n_layers), {.on_device = false});
    LayerPlacement& own = layers[static_cast<size_t>(index)];
    own = in_.spec.has_experts() ? whole_layer(in_.spec) : LayerPlacement{.all_gates = true};
    const DeviceBytes taken = device_bytes(in_, layers, 0);
    facts.vram_gates = static_cast<int64_t>(taken.gates);
    facts.vram_shared = static_cast<int64_t>(taken.attention + taken.predictors + taken.kv + taken.states +
                                             taken.tables + taken.hot) +
                        kRounding;
    if (in_.spec.has_experts() || !by_layers(in_.split, in_.mode)) return;
    own = whole_layer(in_.spec);
    const DeviceBytes whole = device_bytes(in_, layers, 0);
    facts.vram_whole =
        static_cast<int64_t>(whole.attention + whole.kv + whole.states + whole.tables + whole.hot) +
        kRounding;
  }

  /// Counts the device memory that the layer's experts take, if the device may hold experts of the layer.
  void count_experts(int index, LayerFacts& facts) const {
    const MixtureWeights& mixture = in_.weights.layers[static_cast<size_t>(index)].mixture;
    if (mixture.experts.empty() || !why_not_experts(in_, index).empty()) return;
    std::vector<LayerPlacement> layers(static_cast<size_t>(in_.spec.n_layers), {.on_device = false});
    LayerPlacement& own = layers[static_cast<size_t>(index)];
    own = whole_layer(in_.spec);
    own.experts = {0};
    facts.n_placeable = static_cast<int64_t>(mixture.experts.size());
    const Expert& one = mixture.experts.front();
    facts.stream_least = static_cast<int64_t>(std::max(
        cuda::streamed_bytes(one.gate) + cuda::streamed_bytes(one.up), streamed_down_bytes(one, in_.mode)));
    facts.vram_expert = static_cast<int64_t>(slot_bytes(mixture, in_.mode));
    facts.vram_expert_tables =
        static_cast<int64_t>(device_bytes(in_, layers, 0).experts) - facts.vram_expert + kRounding;
  }

  static PlanInputs without_nextn(PlanInputs in) {
    in.nextn_share = NextnShare::kNone;
    return in;
  }

  const PlanInputs& all_;
  const PlanInputs in_;  // without the layer that predicts later tokens, which is not placed with the others
  const PlacementAssumptions& assumptions_;
  const bool order_known_;
};

/// Returns the binomial distribution: element i [n + 1] is the probability that i of n independent events
/// happen, each of which has the probability p.
std::vector<double> binomial(int n, double p) {
  std::vector<double> shares = {1};
  for (int event = 0; event < n; ++event) {
    shares.push_back(0);
    for (size_t i = shares.size() - 1; i > 0; --i) shares[i] = shares[i] * (1 - p) + shares[i - 1] * p;
    shares[0] *= 1 - p;
  }
  return shares;
}

}  // namespace

bool by_layers(DeviceSplit split, Sparsity mode) {
  const bool reads_most = mode == Sparsity::kDense || mode == Sparsity::kCalibrated;
  return split == DeviceSplit::kLayers || (split == DeviceSplit::kAuto && reads_most);
}

ModelFacts model_facts(const PlanInputs& inputs, const ModelActivity& activity, bool order_known,
                       const PlacementAssumptions& assumptions) {
  const FactsMaker maker(inputs, assumptions, order_known);
  ModelFacts facts{
      .mode = inputs.mode,
      .d_model = inputs.spec.d_model,
      .d_ff = inputs.spec.d_ff,
      .n_experts = inputs.spec.mixture.n_experts,
      .n_used = inputs.spec.mixture.n_used,
      .layers = {},
      .activity = &activity,
      .assumptions = assumptions,
      .output_read = bytes(inputs.weights.output.weight),
      .output_type = inputs.weights.output.weight ? inputs.weights.output.weight.dtype : DType::kQ4_0,
      .library = inputs.bounds.library,
      .prefill_tokens = inputs.bounds.max_tokens};
  maker.count_fixed(facts);
  std::map<Kind, LayerFacts> known;  // most models have one or two kinds of layers
  for (int i = 0; i < inputs.spec.n_layers; ++i) {
    const Kind kind = kind_of(inputs, i);
    auto found = known.find(kind);
    if (found == known.end()) found = known.emplace(kind, maker.layer(i)).first;
    facts.layers.push_back(found->second);
  }
  if (facts.n_experts > 0) facts.experts_per_step = experts_read_by(activity, facts.prefill_tokens);
  return facts;
}

TokenWork& TokenWork::operator+=(const TokenWork& other) {
  bytes.device_whole += other.bytes.device_whole;
  bytes.device_neurons += other.bytes.device_neurons;
  bytes.cold_neurons += other.bytes.cold_neurons;
  bytes.host_whole += other.bytes.host_whole;
  brought_bytes += other.brought_bytes;
  device_whole += other.device_whole;
  device_neurons += other.device_neurons;
  cold_neurons += other.cold_neurons;
  host_layers += other.host_layers;
  kernels += other.kernels;
  hand_overs += other.hand_overs;
  step += other.step;
  return *this;
}

LayerOptions::LayerOptions(const ModelFacts& facts, int layer, const CostModel& cost, bool cache)
    : facts_(facts),
      layer_(facts.layers[static_cast<size_t>(layer)]),
      curve_(facts.activity->of(layer)),
      cost_(cost),
      cache_(cache && facts.mode == Sparsity::kPredicted && cost.has_gpu()),
      // A hybrid layer makes proposals for the second hybrid layer after it, so the first two layers get
      // no proposals.
      useful_(facts.mode == Sparsity::kPredicted && layer > 1 ? facts.assumptions.useful_predicted
                                                              : facts.assumptions.useful_repeated),
      alone_(cost.cold_rows()) {}

double LayerOptions::proposed(int64_t n) const {
  return std::min(static_cast<double>(n), facts_.assumptions.proposed_per_active * curve_.active(n));
}

TokenWork LayerOptions::host_work() const {
  const auto all = static_cast<double>(facts_.d_ff);
  const double active = curve_.active();
  double whole = layer_.attention_read + layer_.kv_read + layer_.predictor_read, rows = 0;
  switch (facts_.mode) {
    case Sparsity::kPredicted:
      rows = proposed(facts_.d_ff) * layer_.gate + active * (layer_.up + layer_.down) + layer_.scales_read;
      break;
    case Sparsity::kExact:
      whole += all * layer_.gate;
      rows = active * (layer_.up + layer_.down) + layer_.scales_read;
      break;
    default:
      whole += all * (layer_.gate + layer_.up + layer_.down) + layer_.scales_read;
  }
  TokenWork work;
  work.bytes.host_whole = whole + rows;
  work.host_layers = cost_.cpu_read(whole) + cost_.cpu_rows(rows);
  return work;
}

/// If the layer is on a device, the device computes the shared expert and the experts that it holds, while
/// the CPU computes the missing experts. How many of a token's experts are missing differs from token to
/// token, and the slower processor determines each token's time. So the time is the mean of the maximum,
/// which is longer than the maximum of the two means. Each chosen expert is assumed to be on the device with
/// the same probability, independently of the others.
TokenWork LayerOptions::mixture_work(const LayerOption& option) const {
  TokenWork work;
  const HostCosts host;
  const bool mixes = layer_.experts_read > 0;
  if (!option.on_device) {
    work.bytes.host_whole = layer_.attention_read + layer_.kv_read + layer_.shared_read + layer_.experts_read;
    work.cold_neurons = cost_.cpu_read(layer_.experts_read);
    work.host_layers = cost_.cpu_read(layer_.attention_read + layer_.kv_read + layer_.shared_read) +
                       (mixes ? host.mixture_layer_s() : host.dense_layer_s());
    return work;
  }
  const Held of_experts = held(option);
  const double own = caught(option);
  const MixtureSeconds mean = mixture_seconds(of_experts, own);
  work.bytes.device_whole = layer_.attention_read + layer_.kv_read + layer_.shared_read;
  work.bytes.device_neurons = own * layer_.experts_read;
  work.bytes.cold_neurons = layer_.experts_read - work.bytes.device_neurons;
  work.kernels = mean.kernels;
  work.device_whole = mean.whole;
  if (!mixes) return work;
  if (of_experts == Held::kAll) {
    work.device_neurons = mean.device;
    return work;
  }
  const std::vector<double> shares = binomial(facts_.n_used, own);
  for (size_t n = 0; n < shares.size(); ++n) {
    const MixtureSeconds seconds = mixture_seconds(of_experts, static_cast<double>(n) / facts_.n_used);
    const double device_s = seconds.device - seconds.begin;
    double& slower = seconds.host >= device_s ? work.cold_neurons : work.device_neurons;
    slower += shares[n] * std::max(seconds.host, device_s);
  }
  work.hand_overs = mean.hand_over;
  return work;
}

MixtureSeconds LayerOptions::mixture_seconds(Held of_experts, double own) const {
  MixtureSeconds seconds;
  const cuda::KernelClass matrices = cuda::product_class(layer_.attention_type);
  const double own_read = own * layer_.experts_read;
  seconds.kernels = cost_.kernels(mixture_kernels(layer_, of_experts));
  seconds.whole = cost_.gpu_read(layer_.attention_read, matrices) + attend();
  seconds.device = cost_.gpu_read(layer_.shared_read, matrices);
  if (layer_.experts_read == 0) {
    seconds.whole += std::exchange(seconds.device, 0);
    return seconds;
  }
  if (layer_.shared_read > 0) seconds.device += cost_.kernels(ffn_kernels());
  if (of_experts != Held::kNone) {
    seconds.device += cost_.gpu_read(own_read, cuda::product_class(layer_.ffn_type)) +
                      cost_.kernels(expert_kernels(layer_.ffn_type));
  }
  if (of_experts == Held::kAll) return seconds;
  seconds.begin = HostCosts().experts_s();
  seconds.host = cost_.cpu_read(layer_.experts_read - own_read);
  // If the CPU computes all experts, the CPU adds up their outputs and returns one row. If the device has
  // some experts, the device adds up all outputs, and the CPU returns one row for each missing expert that
  // the token chose.
  const double rows_back = of_experts == Held::kNone ? 1 : facts_.n_used * (1 - own);
  seconds.hand_over = seconds.begin + cost_.round_trip(4.0 * (facts_.d_model + facts_.n_experts),
                                                       4.0 * rows_back * facts_.d_model);
  return seconds;
}

TokenWork LayerOptions::prompt_work(const LayerOption& option, bool streams) const {
  const double n = facts_.prefill_tokens;
  const auto on_cpu = [&](double bytes, double weights) {
    return std::max(cost_.cpu_read(bytes), cost_.cpu_compute(n * weights)) / n;
  };
  const auto on_gpu = [&](double bytes, double weights, DType type) {
    return std::max(cost_.gpu_read(bytes, cuda::product_class(type)), cost_.gpu_compute(n * weights, type)) /
           n;
  };
  TokenWork work;
  const bool mixes = layer_.experts_read > 0;
  const double experts_read = layer_.expert * facts_.experts_per_step;
  if (!option.on_device) {
    work.host_layers =
        on_cpu(layer_.attention_read + layer_.shared_read, layer_.attention_weights + layer_.shared_weights);
    work.cold_neurons = on_cpu(experts_read, layer_.ffn_weights);
    return work;
  }
  const Held of_experts = held(option);
  work.kernels = cost_.kernels(mixture_kernels(layer_, of_experts)) / n;
  work.device_whole = on_gpu(layer_.attention_read, layer_.attention_weights, layer_.attention_type);
  const double shared_s = on_gpu(layer_.shared_read, layer_.shared_weights, layer_.attention_type);
  if (!mixes) {
    work.device_whole += shared_s;
    return work;
  }
  const double all_s = shared_s + on_gpu(experts_read, layer_.ffn_weights, layer_.ffn_type);
  if (of_experts == Held::kAll) {
    work.device_neurons = all_s;
    return work;
  }
  // The device computes the chosen experts that it holds, and the CPU computes the other chosen experts.
  const double own = caught(option), n_missing = static_cast<double>(facts_.n_experts - option.n_experts);
  const double missing_read = std::min(facts_.experts_per_step, n_missing);
  const double host_s = on_cpu(layer_.expert * missing_read, layer_.ffn_weights * (1 - own));
  const double device_s = shared_s + on_gpu(std::max(0.0, experts_read - layer_.expert * missing_read),
                                            layer_.ffn_weights * own, layer_.ffn_type);
  const double rows_back = of_experts == Held::kNone ? 1 : facts_.n_used * (1 - own);
  const double hand_over =
      (HostCosts().experts_s() + cost_.round_trip(4.0 * n * (facts_.d_model + facts_.n_experts),
                                                  4.0 * n * rows_back * facts_.d_model)) /
      n;
  // Alternatively, some of the missing experts are copied to the device, and the CPU computes the others in
  // the same time.
  const double copies_s = cost_.stream(layer_.expert * n_missing) / n;  // if all are copied
  const double copied = host_s / (copies_s + host_s);
  const double streamed_s = std::max(copied * copies_s, device_s + copied * (all_s - device_s));
  if (streams && of_experts != Held::kNone && streamed_s < std::max(host_s, device_s) + hand_over) {
    work.device_neurons = streamed_s;
    return work;
  }
  (host_s >= device_s ? work.cold_neurons : work.device_neurons) = std::max(host_s, device_s);
  work.hand_overs = hand_over;
  return work;
}

double LayerOptions::attend() const {
  return std::max(cost_.gpu_read(layer_.kv_read, cuda::KernelClass::kAttention),
                  cost_.gpu_instructions(layer_.attention_instructions, cuda::KernelClass::kAttention));
}

/// Cost of reading cold rows if the device has a neuron cache. n_there: number of neurons that are on the
/// device for nearly every token.
ColdRead LayerOptions::brought(bool all_gates, int64_t n_there) const {
  const TokenWork work = device_work({.on_device = true, .all_gates = all_gates, .n_hot = n_there});
  return cost_.cold_rows_brought(useful_, work.bytes.cold_neurons,
                                 work.device_whole + work.kernels + work.hand_overs);
}

TokenWork LayerOptions::device_work(const LayerOption& option) const {
  const int64_t d_ff = facts_.d_ff, r = option.n_there();
  const double active = curve_.active(r), cold = curve_.active() - active;
  const double up_down = layer_.up + layer_.down;
  double whole = layer_.attention_read + layer_.predictor_read;
  // Bytes that the device and the host read. The device reads `own`, and also the down rows `own_down`,
  // usually with a different kernel. The host reads `rows` as scattered bundles and `in_order` sequentially.
  double own = 0, own_down = 0, in_order = 0, rows = 0;
  switch (facts_.mode) {
    case Sparsity::kPredicted:
      own = proposed(r) * layer_.gate + active * layer_.up;
      own_down = active * layer_.down;
      rows = (proposed(d_ff) - proposed(r)) * layer_.gate + cold * up_down;
      break;
    case Sparsity::kExact:
      if (option.all_gates) {
        whole += static_cast<double>(d_ff) * layer_.gate;
      } else {
        own = static_cast<double>(r) * layer_.gate;
        rows = static_cast<double>(d_ff - r) * layer_.gate;
      }
      own += active * layer_.up;
      own_down = active * layer_.down;
      rows += cold * up_down;
      break;
    default:
      own = static_cast<double>(r) * (layer_.gate + layer_.up);
      own_down = static_cast<double>(r) * layer_.down;
      rows = static_cast<double>(d_ff - r) * (layer_.gate + up_down);
  }
  // The scales of a group of neurons are read by every processor that computes active neurons of the group.
  // In sparse modes, both processors read all scales.
  const bool dense = facts_.mode == Sparsity::kDense;
  const double own_scales = dense ? static_cast<double>(r) / static_cast<double>(d_ff) : r > 0 ? 1 : 0;
  const double host_scales = dense ? 1 - own_scales : r < d_ff ? 1 : 0;
  own_down += own_scales * layer_.scales_read;
  in_order += host_scales * layer_.scales_read;

  TokenWork work;
  const ColdRead how = option.n_cache > 0 ? brought(option.all_gates, r) : alone_;
  work.bytes.device_whole = whole + layer_.kv_read;
  work.bytes.device_neurons = own + own_down;
  work.bytes.cold_neurons = in_order + rows;
  work.brought_bytes = rows * how.brought_share / useful_;
  const bool shared = r < d_ff, by_neurons = shared || !dense;
  const cuda::KernelClass matrices = cuda::product_class(layer_.attention_type),
                          neurons = cuda::product_class(layer_.ffn_type, by_neurons);
  work.device_whole = cost_.gpu_read(whole, matrices) + attend();
  work.kernels = cost_.kernels(layer_kernels(facts_.mode, shared));
  double device_s = cost_.gpu_read(own, neurons) +
                    cost_.gpu_read(own_down, by_neurons ? cuda::KernelClass::kDownRows : neurons);
  if (option.n_cache > 0) {
    // While the CPU computes cold neurons, the device computes its own neurons and runs the predictor of a
    // later layer.
    work.bytes.device_neurons += layer_.predictor_read;
    device_s += cost_.gpu_read(layer_.predictor_read, matrices) + cost_.kernels(look_ahead_kernels());
  }
  const double host_s = cost_.cpu_read(in_order) + rows * how.seconds_per_byte;
  (host_s > device_s ? work.cold_neurons : work.device_neurons) = std::max(host_s, device_s);
  if (r < d_ff) {
    // The CPU gets the layer's input and, for each neuron, a bit that tells whether the neuron is cold and
    // wanted. The CPU returns sums of 64 bits each.
    work.hand_overs =
        cost_.round_trip(4.0 * facts_.d_model + static_cast<double>(d_ff) / 8, 8.0 * facts_.d_model);
  }
  return work;
}

TokenWork LayerOptions::work(const LayerOption& option) const {
  if (facts_.n_experts > 0) return mixture_work(option);
  return option.on_device ? device_work(option) : host_work();
}

int64_t LayerOptions::vram(const LayerOption& option) const {
  if (!option.on_device) return 0;
  if (layer_.vram_whole > 0 && option.n_hot == facts_.d_ff) return layer_.vram_whole;
  const double row = (option.all_gates ? 0 : layer_.gate) + layer_.up + layer_.down;
  const int64_t experts =
      option.n_experts > 0 ? layer_.vram_expert_tables + option.n_experts * layer_.vram_expert : 0;
  return layer_.vram_shared + (option.all_gates ? layer_.vram_gates : 0) +
         (option.n_hot + option.n_cache) * static_cast<int64_t>(row) + experts;
}

int64_t LayerOptions::ram(const LayerOption& option) const {
  if (!option.on_device) return layer_.ram_whole;
  if (facts_.n_experts > 0) return layer_.ram_shared - option.n_experts * layer_.ram_neuron;
  const int64_t kept = facts_.d_ff - (layer_.gives_back ? option.n_hot : 0);
  return layer_.ram_shared + kept * layer_.ram_neuron;
}

double LayerOptions::caught(const LayerOption& option) const {
  if (!option.on_device) return 0;
  if (facts_.n_experts == 0) return curve_.caught(option.n_there());
  // Without counts of the layer's experts, assume that all are chosen equally often.
  return curve_.active() > 0 ? curve_.caught(option.n_experts)
                             : static_cast<double>(option.n_experts) / facts_.n_experts;
}

Held LayerOptions::held(const LayerOption& option) const {
  if (option.n_experts == 0) return Held::kNone;
  return option.n_experts < facts_.n_experts ? Held::kSome : Held::kAll;
}

void LayerOptions::add(const LayerOption& option, std::vector<LayerOption>& options,
                       std::vector<Choice>& choices) const {
  options.push_back(option);
  choices.push_back({.vram = vram(option),
                     .ram = ram(option),
                     .seconds = work(option).seconds(),
                     .on_device = option.on_device});
}

void LayerOptions::list(std::vector<LayerOption>& options, std::vector<Choice>& choices,
                        bool by_layers) const {
  add({.on_device = false}, options, choices);
  if (!cost_.has_gpu()) return;
  const int64_t d_ff = facts_.d_ff;
  if (facts_.n_experts > 0) return list_mixture(options, choices, by_layers);
  if (by_layers) return add({.on_device = true, .all_gates = false, .n_hot = d_ff}, options, choices);
  for (const bool gates : {false, true}) {
    if (gates && facts_.mode != Sparsity::kExact) break;
    for (int64_t n = 0;; n = std::min(d_ff, n + kGroup)) {
      if (gates && n == d_ff) break;  // with all neurons, the device has all gates anyway
      add({.on_device = true, .all_gates = gates, .n_hot = n}, options, choices);
      if (n == d_ff) break;
      if (!cache_) continue;
      const double share = brought(gates, n).brought_share;
      if (share <= 0) continue;
      // A quarter of the cache holds neurons that are brought for one token. The other three quarters hold
      // the most active neurons after the hot ones, so together with the hot neurons, they are the n most
      // active neurons.
      const double wanted = proposed(d_ff) - proposed(n);
      const auto n_cache = static_cast<int64_t>(std::ceil(4 * wanted * share / useful_));
      const int64_t n_hot = n - n_cache * 3 / 4;
      if (n_cache == 0 || n_hot < 0 || n_hot + n_cache > d_ff) continue;
      add({.on_device = true, .all_gates = gates, .n_hot = n_hot, .n_cache = n_cache}, options, choices);
    }
  }
}

void LayerOptions::list_mixture(std::vector<LayerOption>& options, std::vector<Choice>& choices,
                                bool by_layers) const {
  const int64_t step = by_layers ? std::max<int64_t>(layer_.n_placeable, 1) : 1;
  for (int64_t n = 0; n <= layer_.n_placeable; n += step) {
    add({.on_device = true, .all_gates = false, .n_hot = facts_.d_ff, .n_experts = n}, options, choices);
  }
}

}  // namespace hearth
