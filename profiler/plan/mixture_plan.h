// Plans a mixture of experts on a machine: where its parts lie, and its speed from a closed form.
//
// The engine's solver places the model (engine/placement/solver.h). A GPU has the output matrix and, for as
// many layers as fit, attention with its keys and values, the router and shared experts; what memory is left
// holds experts, the most chosen ones. Other experts stay in RAM, and the CPU computes them. In a layer with
// missing experts, the GPU hands the input over to the CPU and takes their results back. One decoded token
// takes
//
//   T   = (W_a + W_r + W_o) / B_vram + A + n_d K + n_m hop + n_m max(W_m / B_ram, D - begin) + n_w D
//         + W_cpu / B_ram + n_cpu rest + step
//   hop = begin + hand_over + 4 (d_model + n_experts) / B_from + 4 r d_model / B_to
//   D   = (W_s + W_g) / B_vram + K_s
//
//   n_d, n_m, n_w  layers on the GPU, those of them with missing experts, and those without
//   W_a, W_r       bytes of attention and router in these layers; a dense FFN counts as attention
//   W_o            bytes of the output matrix
//   W_s, W_g, W_m  bytes of a layer's shared expert, and of its n_used experts on the GPU and in RAM: shares
//                  as counted (--activity), or as if all experts were chosen equally often
//   n_cpu, W_cpu   the other layers, and all their bytes; without a GPU these are all layers, and W_cpu
//                  includes W_o
//   rest           time to start threads in such a layer, and its operations on activations
//   A              time of attention over half a context: its bytes or its instructions
//   K              start times of a layer's kernels that the CPU waits for: attention, router, hand-over
//                  and back
//   K_s            start times of the kernels of the shared expert and of experts on the GPU
//   B_vram         rates of the memory that kernels reach
//   begin          time to choose experts and start threads (engine/placement/host_costs.h); the GPU
//                  computes its experts at the same time
//   r              rows that come back: one, or if the GPU holds some of the experts, one for each expert
//   that
//                  the CPU computes
//
// B_vram, K, hand_over and step come from engine/placement/kernel_costs.h.
//
// A prompt's step of m tokens takes, for each part, the larger of its bytes over the bandwidth and its
// multiply-adds over the processor's rate. The number of experts that m tokens read comes from counts
// (--activity) or, without counts, from tokens that choose as synth plants it
// (profiler/synthesis/planted_choice.h). The CPU computes all experts of a layer that has missing ones
// (kernels/hybrid_experts.h). With a GPU, a hand-over of m rows is added for each such layer, and the shared
// expert overlaps with the CPU's.
//
// A simulation of the engine's schedule agrees within a tenth
// (tests/profiler/simulation/mixture_simulation_test.cpp).
//
// The form leaves out rows of embeddings, norms, and how well processors multiply if an expert has few of a
// prompt's tokens. Called by hearth-profiler plan and report; reads no weights.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "engine/activity/activity_counts.h"
#include "profiler/plan/plan_answer.h"

namespace hearth {

/// Seconds of one token.
struct MixtureWork {
  double device_whole = 0;  // attention, routers, output, keys and values on the GPU
  // Experts: the CPU's, or the GPU's and the shared one in layers where these take longer.
  double host_experts = 0, device_experts = 0;
  double host_whole = 0;  // everything else that the CPU reads
  double kernels = 0;
  double hand_overs = 0;  // includes the choice of experts and the start of threads
  double step = 0;        // outside the layers, with a GPU
  /// The time if starting kernels and handing over took no time.
  double reading() const { return device_whole + host_experts + device_experts + host_whole; }
  double seconds() const { return reading() + kernels + hand_overs + step; }
};

/// Bytes of a part of the model.
struct MixtureBytes {
  std::string what;
  double on_gpu = 0, in_ram = 0;  // where they lie
  double read = 0;                // by one decoded token
};

struct MixturePlan {
  bool on_gpu = false;
  int n_device_layers = 0;
  int64_t n_resident = 0, n_experts = 0;  // experts on the GPU, and all, in all layers
  double chosen_on_gpu = 0;               // share of the choices that are on the GPU
  int n_kv_contexts = 0;                  // contexts with keys and values in memory at once
  int64_t vram_budget = 0, ram_budget = 0;
  std::vector<MixtureBytes> parts;
  MixtureWork decode, prefill;  // for one token
  double experts_per_step = 0;  // experts that a layer reads in a prompt's step
  std::string experts_source;   // source of that figure, for people

  double vram_bytes() const;
  double ram_bytes() const;
  double token_bytes() const;
};

/// counts: counts of the model's experts, or null. REQUIRES: the model has experts. Throws std::runtime_error
/// (one sentence) if RAM does not hold the parts that the GPU does not take.
MixturePlan plan_mixture(const PlanQuestion& question, const ActivityCounts* counts);

std::vector<std::pair<std::string, std::string>> mixture_lines(const PlanQuestion& question,
                                                               const MixturePlan& plan);
/// The part of `work` that a token waits for most.
std::string mixture_bound(const MixtureWork& work);
std::string mixture_text(const PlanQuestion& question, const MixturePlan& plan);
std::string mixture_json(const PlanQuestion& question, const MixturePlan& plan);

}  // namespace hearth
