// The facts and options from which the solver chooses. ModelFacts has the facts of one model in one mode: the
// bytes of each layer, where they would be stored, and how often they are read. LayerOptions lists the
// options of a layer. Each option is a part of the layer that the device could get, with the bytes that this
// part takes and the time of a decoded token in the layer.
//
// Bytes on the device are counted by the engine, layer by layer (device_bytes() in engine/residency/plan.h).
// Bytes that are read are computed as in engine/residency/token_bytes.h.
//
// If a layer's attention is on the device, the layer's n_hot most active neurons stay there, followed by a
// cache with n_cache entries. Three quarters of the entries hold the neurons that are wanted most often after
// the hot ones. One quarter is for neurons that are brought for one token and evicted afterward: before a
// step, the Prefetcher empties at most a quarter of the cache. So one number describes hot neurons and cache
// together: the number of most active neurons that are on the device most of the time.
//
// A layer's time is not linear in the device's part, because GPU and CPU work at the same time and the slower
// of the two determines the layer's time. This maximum is computed exactly for each option, without
// linearization, because layers run one after the other and a layer's options are listed one by one.
//
// In a mixture, the options of a layer differ in how many experts the device holds beside the layer's
// attention, the most chosen experts first. If the device holds all experts, the layer needs no hand-over.
//
// Plain values; any thread.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/placement/activity_curve.h"
#include "engine/placement/choice_chain.h"
#include "engine/placement/cost_model.h"
#include "engine/placement/placement_facts.h"
#include "engine/residency/plan.h"
#include "engine/residency/token_bytes.h"
#include "kernels/cuda/ops/kernel_class.h"

namespace hearth {

/// Whether a device gets only whole layers: with kLayers, or with kAuto in dense or calibrated mode. In these
/// modes, the CPU reads its neurons for every token, whether they are active or not (in calibrated mode,
/// except for the down rows). So sharing neurons costs more than it saves.
bool by_layers(DeviceSplit split, Sparsity mode);

/// The bytes of one layer: bytes that are read for a token, and bytes that take memory.
struct LayerFacts {
  // Bytes read for every token, by the device that has the layer:
  double attention_read = 0;          // attention's matrices
  double kv_read = 0;                 // keys and values of the part of the context that is filled
  double attention_instructions = 0;  // instructions of a GPU, over all query heads
  double predictor_read = 0;
  double scales_read = 0;  // scales of a coded down projection
  // In a mixture of experts only: the bytes of a dense FFN or the shared expert (shared_read), of all experts
  // that a token chooses (experts_read), and of one expert (expert). attention_read then includes the router,
  // and there are no neurons.
  double shared_read = 0, experts_read = 0, expert = 0;
  // Bytes read for one neuron.
  double gate = 0, up = 0, down = 0;
  // Bytes of the device's memory.
  int64_t vram_shared = 0;  // attention, keys and values, norms, predictor and tables, but no neurons
  int64_t vram_gates = 0;   // gate rows of all neurons
  int64_t vram_whole = 0;   // the whole layer as stored in the file; 0 if neurons may be shared
  int64_t vram_expert = 0, vram_expert_tables = 0;  // one expert; tables of a layer with experts
  // Number of experts in the layer; 0 if the device may hold none of them.
  int64_t n_placeable = 0;
  // Minimum size of a buffer through which the device can get missing experts.
  int64_t stream_least = 0;
  // Bytes of host memory:
  int64_t ram_whole = 0;  // for the layer if the CPU runs it, including its keys and values
  // For the layer if the device runs it: the layer without its neurons; in a mixture, with all its experts.
  int64_t ram_shared = 0;
  int64_t ram_neuron = 0;   // one neuron's bundle; in a mixture, one expert
  bool gives_back = false;  // the memory of hot neurons' bundles is freed
  // Numbers of weights that a prompt token is multiplied by. In a mixture, attention_weights includes the
  // router, and ffn_weights counts the weights of a token's experts.
  double attention_weights = 0, ffn_weights = 0, shared_weights = 0;
  // Weight types, which determine the GPU kernels that run: the type of attention's matrices, and the type of
  // the gate and up rows (in a mixture, of the experts).
  DType attention_type = DType::kQ4_0, ffn_type = DType::kQ4_0;
  bool down_is_quantized = true;  // down rows are neither floats nor codes
  bool norms_qk = false;          // queries and keys are normalized, by one kernel each
  bool operator==(const LayerFacts&) const = default;
};

struct ModelFacts {
  Sparsity mode = Sparsity::kDense;
  int d_model = 0, d_ff = 0;
  // Numbers of experts in a layer, and of experts that a token chooses; 0 if the model is no mixture of
  // experts.
  int n_experts = 0, n_used = 0;
  std::vector<LayerFacts> layers;
  const ModelActivity* activity = nullptr;  // must outlive the facts
  PlacementAssumptions assumptions;
  double output_read = 0;
  DType output_type = DType::kQ4_0;
  bool library = false;         // a matrix library multiplies float weights in prompts
  int prefill_tokens = 1;       // prompt tokens of a step
  double experts_per_step = 0;  // experts of a layer that a step of prompt tokens reads
  int64_t vram_fixed = 0;       // scratch memory and output matrix, needed if the GPU has a part of the model
  int64_t vram_experts = 0;     // scratch memory, needed if the GPU has experts
  int64_t vram_whole = 0;       // the whole model on the device
  int64_t ram_fixed = 0;        // embeddings and the host's work space
  int64_t vram_least = 0;       // the smallest device memory for which a plan exists
};

/// `order_known`: the most active neurons come first in the layout, so the host memory of hot neurons can be
/// freed. `activity` must outlive the facts.
ModelFacts model_facts(const PlanInputs& inputs, const ModelActivity& activity, bool order_known,
                       const PlacementAssumptions& assumptions = {});

struct LayerOption {
  bool on_device = false;
  bool all_gates = false;
  int64_t n_hot = 0, n_cache = 0;
  int64_t n_experts = 0;  // in a mixture: number of experts on the device, which are the most chosen experts
  /// Number of the layer's most active neurons that are on the device for nearly every token.
  int64_t n_there() const { return n_hot + n_cache * 3 / 4; }
  bool operator==(const LayerOption&) const = default;
};

/// The work for one decoded token in a layer, or the sum over layers.
struct TokenWork {
  TokenBytes bytes;          // grouped by the device that reads them
  double brought_bytes = 0;  // cold neurons' bytes that PCIe brings
  // Seconds. If the GPU and the CPU both compute neurons of a layer, only the time of the slower one counts.
  double device_whole = 0;  // attention, predictor, output, and the gate rows if all are read
  // The neurons or experts on the GPU, for the layers in which they take longer than those on the CPU.
  double device_neurons = 0;
  // The neurons or experts on the CPU, for the layers in which they take longer than those on the GPU.
  double cold_neurons = 0;
  double host_layers = 0;
  double kernels = 0;
  double hand_overs = 0;
  double step = 0;  // fixed cost of a step outside the layers; 0 without a GPU

  double seconds() const {
    return device_whole + device_neurons + cold_neurons + host_layers + kernels + hand_overs + step;
  }
  TokenWork& operator+=(const TokenWork& other);
};

/// Numbers of the kernels that one decoded token starts in a layer on the device, for a Llama model with
/// quantized weights and more than 256 tokens of context. Tests count these kernels on the emulator
/// (tests/engine/placement/place_model_test.cpp) and by class in the simulation.
constexpr KernelCounts layer_kernels(Sparsity mode, bool shared) {
  using enum cuda::KernelClass;
  KernelCounts n = {};
  const auto add = [&n](cuda::KernelClass kind, double count) { n[static_cast<size_t>(kind)] += count; };
  // The kernels of attention: the norm; the product for queries, keys and values; the rotation, which also
  // stores keys and values; attention itself; quantizing; the output product.
  add(kNorm, 1);
  add(kProduct, 2);
  add(kSimple, 2);
  add(kAttention, 1);
  // The FFN's norm.
  add(kNorm, 1);
  if (mode == Sparsity::kDense && !shared) {  // gate and up together, activations, down
    add(kProduct, 2);
    add(kSimple, 1);
    return n;
  }
  // The kernels that find the set of neurons. In predicted mode, they compute the predictor's two matrices,
  // the activation and quantizing between these matrices, the predicted set, the gate products, and the
  // neurons whose gates pass.
  if (mode == Sparsity::kPredicted) {
    add(kProduct, 2);
    add(kSimple, 2);
    add(kList, 2);
    add(kListedProduct, 1);
    add(kList, 1);
  } else if (mode == Sparsity::kExact) {  // the gate products, and the neurons whose gates pass
    add(kProduct, 1);
    add(kList, 1);
  } else {  // in calibrated mode, all neurons are wanted
    add(kSimple, 1);
    add(kListedProduct, 1);
    add(kList, 1);
  }
  // The kernel that turns the set of neurons into a list. In a shared layer, it also writes the input for the
  // host.
  add(shared ? kHandOver : kList, 1);
  // One kernel each for the up products, the activations, the down rows, and the final sums.
  add(kListedProduct, 1);
  add(kList, 1);
  add(kDownRows, 1);
  add(kSums, 1);
  return n;
}

/// Additional kernels for a predictor that proposes neurons of a later layer. Its input is already quantized.
constexpr KernelCounts look_ahead_kernels() {
  using enum cuda::KernelClass;
  KernelCounts n = {};
  n[static_cast<size_t>(kProduct)] = 2;
  n[static_cast<size_t>(kSimple)] = 1;
  n[static_cast<size_t>(kHandOver)] = 1;
  return n;
}

/// Kernels of a dense FFN or a shared expert: one each for the gate and up product, the activations, and the
/// down product.
constexpr KernelCounts ffn_kernels() {
  using enum cuda::KernelClass;
  KernelCounts n = {};
  n[static_cast<size_t>(kProduct)] = 2;
  n[static_cast<size_t>(kSimple)] = 1;
  return n;
}

/// Whether the device holds none, some or all of a layer's experts.
enum class Held : uint8_t { kNone, kSome, kAll };

/// Kernels of resident experts: one each for the gate and up products, the activations, and the down
/// products.
inline KernelCounts expert_kernels(DType type) {
  KernelCounts n = {};
  n[static_cast<size_t>(cuda::product_class(type))] = 2;
  n[static_cast<size_t>(cuda::KernelClass::kSimple)] = 1;
  return n;
}

/// Numbers of the kernels that one decoded token starts in a layer of a mixture and that are not hidden by
/// work of the CPU. A layer without experts starts the kernels of a dense layer. A layer with experts has the
/// router's kernel instead of the FFN's kernels, one kernel that hands over to the CPU, and one that adds up
/// the experts' outputs. If the device holds experts, one more kernel chooses the token's experts. If the
/// device holds all experts, there is no hand-over.
constexpr KernelCounts mixture_kernels(const LayerFacts& layer, Held held = Held::kNone) {
  using enum cuda::KernelClass;
  KernelCounts n = layer_kernels(Sparsity::kDense, false);
  const auto add = [&n](cuda::KernelClass kind, double count) { n[static_cast<size_t>(kind)] += count; };
  if (layer.norms_qk) add(kNorm, 2);
  if (layer.experts_read == 0) return n;
  const KernelCounts ffn = ffn_kernels();
  for (size_t i = 0; i < n.size(); ++i) n[i] -= ffn[i];
  add(kProduct, 1);
  if (held != Held::kAll) add(kHandOver, 1);
  if (held == Held::kNone) {
    add(kSimple, 1);
  } else {
    add(kList, 1);
    add(kSums, 1);
  }
  return n;
}

/// Seconds that the parts of a decoded token take in a layer of a mixture, if the device has the layer.
struct MixtureSeconds {
  double whole = 0;    // attention and router; in a layer without experts, also the FFN
  double kernels = 0;  // time to start kernels that is not hidden by the CPU's work
  double device = 0;   // the shared expert, and the token's experts on the device
  // The members below are 0 if the device holds all experts, because then nothing is handed over.
  double host = 0;       // the missing experts, on the CPU
  double begin = 0;      // the CPU's preparation, during which the device already computes
  double hand_over = 0;  // hand-over to the CPU and back, plus `begin`
};

/// The options of one layer.
class LayerOptions {
 public:
  /// All arguments must outlive this object. `cache`: whether neurons may be copied to the device while the
  /// model runs; used only in predicted mode.
  LayerOptions(const ModelFacts& facts, int layer, const CostModel& cost, bool cache);

  TokenWork work(const LayerOption& option) const;
  /// The work for one prompt token. streams: there are buffers through which the device can get missing
  /// experts. REQUIRES: the model is a mixture.
  TokenWork prompt_work(const LayerOption& option, bool streams) const;
  /// Returns the seconds that one decoded token takes in the layer. held: whether the device holds none, some
  /// or all of the layer's experts; own: the share of the token's chosen experts that the device holds.
  /// REQUIRES: the model is a mixture, and the machine has a GPU.
  MixtureSeconds mixture_seconds(Held held, double own) const;
  int64_t vram(const LayerOption& option) const;
  int64_t ram(const LayerOption& option) const;

  /// Lists all options, the CPU's first, and for each option the corresponding input of choose(). As in
  /// PowerInfer, neurons are placed in groups of kGroup. by_layers: the device has either the whole layer or
  /// nothing of it; in a mixture, either all of the layer's experts or none.
  void list(std::vector<LayerOption>& options, std::vector<Choice>& choices, bool by_layers = false) const;
  static constexpr int64_t kGroup = 64;

  /// The share of the layer's activations that belongs to neurons on the device; in a mixture, the share of
  /// choices that belongs to experts on the device.
  double caught(const LayerOption& option) const;
  /// Returns whether the device holds none, some or all of the layer's experts with this option. REQUIRES:
  /// the model is a mixture.
  Held held(const LayerOption& option) const;

 private:
  TokenWork host_work() const;
  /// Seconds that the GPU takes for attention, without the time to start the kernel.
  double attend() const;
  TokenWork mixture_work(const LayerOption& option) const;
  void list_mixture(std::vector<LayerOption>& options, std::vector<Choice>& choices, bool by_layers) const;
  ColdRead brought(bool all_gates, int64_t n_there) const;
  TokenWork device_work(const LayerOption& option) const;
  void add(const LayerOption& option, std::vector<LayerOption>& options, std::vector<Choice>& choices) const;
  /// Returns how many of the n most active neurons are proposed for a token, on average.
  double proposed(int64_t n) const;

  const ModelFacts& facts_;
  const LayerFacts& layer_;
  const ActivityCurve& curve_;
  const CostModel& cost_;
  const bool cache_;
  const double useful_;
  const ColdRead alone_;
};

}  // namespace hearth
