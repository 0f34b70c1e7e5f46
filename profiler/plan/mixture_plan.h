// Plans a mixture of experts on a machine: where its parts are placed, and its speed from a formula.
//
// The engine's solver places the model (engine/placement/solver.h). A GPU gets the output matrix and, for as
// many layers as fit, attention with its keys and values, the router and shared experts. The remaining memory
// holds the experts that are chosen most often. All other experts stay in RAM, and the CPU computes them. A
// layer has missing experts if not all of its experts are on the GPU. In such a layer, the GPU hands the
// layer's input over to the CPU and takes back the results. If RAM holds the whole model, the GPU also
// exchanges experts of these layers for missing ones (engine/residency/expert_exchanger.h), so RAM keeps
// copies of the experts that the GPU has. Decoding one token takes
//
//   T   = (W_a + W_r + W_o) / B_vram + A + n_d K + n_m hop + n_m E(max(W_m / B_ram, D - begin)) + n_w D
//         + W_cpu / B_ram + n_cpu rest + step
//   hop = begin + hand_over + 4 (d_model + n_experts) / B_from + 4 r d_model / B_to
//   D   = (W_s + W_g) / B_vram + K_s
//
//   n_d            number of layers on the GPU
//   n_m, n_w       number of these layers with and without missing experts
//   W_a, W_r       bytes of attention and routers in the layers on the GPU; a dense FFN counts as attention
//   W_o            bytes of the output matrix
//   W_s            bytes of a layer's shared expert
//   W_g, W_m       bytes of a token's n_used experts of a layer, on the GPU and in RAM. How often each expert
//                  is chosen comes from counts (--activity); without counts, all experts are chosen equally
//                  often
//   E              mean over tokens, which differ in how many of their experts are in RAM. The number is
//                  binomially distributed
//   n_cpu, W_cpu   number and bytes of all other layers; without a GPU these are all layers, and W_cpu
//                  includes W_o
//   rest           time to start threads in one of these n_cpu layers, and to compute its operations on
//                  activations
//   A              time of attention over half a context, bounded by bytes or by instructions
//   K              time to start those kernels of a layer that the CPU waits for: attention, router, and both
//                  directions of the hand-over
//   K_s            time to start the kernels of the shared expert and of experts on the GPU
//   B_vram         rate at which kernels read the GPU's memory; it depends on the kernel
//   B_ram          rate at which the CPU reads RAM
//   B_from, B_to   rates of copies from and to the GPU
//   begin          time to choose experts and start threads (engine/placement/host_costs.h); the GPU
//                  computes its experts at the same time
//   r              number of result rows copied to the GPU: one, or one for each expert that the CPU computes
//                  if the GPU holds some of the experts
//
// B_vram, K, hand_over and step come from engine/placement/kernel_costs.h.
//
// In a prompt's step of m tokens, a part of the model takes the time to read its bytes or the time to compute
// its multiply-adds, whichever is longer. The number of experts that m tokens read comes from counts
// (--activity). Without counts, tokens are assumed to choose experts as in a synthetic model
// (profiler/synthesis/planted_choice.h). If a layer has missing experts, the CPU computes all of its experts
// (kernels/hybrid_experts.h). With a GPU, the step also hands m rows over in each layer with missing experts,
// and the GPU computes the layer's shared expert while the CPU computes the other experts.
//
// A simulation of the engine's schedule agrees with the formula to within a tenth
// (tests/profiler/simulation/mixture_simulation_test.cpp).
//
// The formula omits rows of embeddings and norms. It also omits that processors multiply less efficiently if
// an expert gets few of a prompt's tokens. Called by hearth-profiler plan and report; reads no weights.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "engine/activity/activity_counts.h"
#include "profiler/plan/plan_answer.h"

namespace hearth {

/// Seconds of one token.
struct MixtureWork {
  double device_whole = 0;  // reading attention, routers, the output matrix, keys and values on the GPU
  // In each layer, the CPU computes its experts while the GPU computes its own and the shared expert. Only
  // the longer of the two times is added, to host_experts or to device_experts.
  double host_experts = 0, device_experts = 0;
  double host_whole = 0;  // reading everything else that the CPU reads
  double kernels = 0;
  double hand_overs = 0;  // includes the choice of experts and the start of threads
  double step = 0;        // work outside the layers, with a GPU
  /// The token's time without `kernels`, `hand_overs` and `step`.
  double reading() const { return device_whole + host_experts + device_experts + host_whole; }
  double seconds() const { return reading() + kernels + hand_overs + step; }
};

/// Bytes of a part of the model.
struct MixtureBytes {
  std::string what;
  double on_gpu = 0, in_ram = 0;  // bytes in each memory
  double copied = 0;              // part of in_ram that the GPU holds too
  double read = 0;                // bytes that one decoded token reads
};

struct MixturePlan {
  bool on_gpu = false;
  int n_device_layers = 0;
  int64_t n_resident = 0, n_experts = 0;  // sums over all layers: experts on the GPU, and all experts
  bool exchanges = false;                 // the GPU exchanges experts while tokens are generated
  double chosen_on_gpu = 0;               // share of the router's choices that fall on experts on the GPU
  int n_kv_contexts = 0;                  // contexts whose keys and values fit in memory at the same time
  int64_t vram_budget = 0, ram_budget = 0;
  std::vector<MixtureBytes> parts;
  MixtureWork decode, prefill;  // for one token
  double experts_per_step = 0;  // experts per layer that a prompt's step reads
  std::string experts_source;   // source of that figure, for people

  /// Whether the GPU holds all layers with all experts.
  bool is_complete(const ModelSpec& spec) const;
  double vram_bytes() const;
  double ram_bytes() const;  // includes copied_bytes()
  double copied_bytes() const;
  double token_bytes() const;
};

/// Plans the model. counts: counts of the model's experts, or null. REQUIRES: the model has experts. Throws
/// std::runtime_error (one sentence) if the parts that are not on the GPU do not fit in RAM.
MixturePlan plan_mixture(const PlanQuestion& question, const ActivityCounts* counts);

std::vector<std::pair<std::string, std::string>> mixture_lines(const PlanQuestion& question,
                                                               const MixturePlan& plan);
/// Names the part of `work` that a token waits for most.
std::string mixture_bound(const MixtureWork& work);
std::string mixture_text(const PlanQuestion& question, const MixturePlan& plan);
std::string mixture_json(const PlanQuestion& question, const MixturePlan& plan);

}  // namespace hearth
