// What a mixture of experts would do on a machine: what lies where, and its speed by a closed form.
//
// Experts stay in RAM, and the CPU computes them. A GPU has the output matrix and, of as many layers as fit, attention with
// its keys and values, the router and shared experts; it hands each such layer's input over to the CPU and takes the
// experts' sum back. Nothing has to be solved, so there is no solver here. One decoded token takes
//
//   T   = (W_a + W_r + W_o) / B_vram + KV / B_kv + n_d (K + hop) + n_d max(W_e / B_ram, W_s / B_vram + K_s - begin)
//         + W_cpu / B_ram + n_cpu rest + step
//   hop = begin + hand_over + 4 (d_model + n_experts) / B_from + 4 d_model / B_to
//
// n_d: layers that the GPU has. W_a, W_r, W_s: attention, router and shared expert of these; W_o: output; a dense FFN counts like
// attention. W_e: a layer's n_used experts. W_cpu: all of the n_cpu other layers, and without a GPU of all and the output; rest:
// what threads take to start in one of them, and operations on activations. KV: keys and values of half a context. K: what the
// kernels take to start that the CPU waits for: attention's, router's, those that hand over and take back; K_s: the shared
// expert's three. B_vram and B_kv are what kernels reach of the memory's rate; these, K, hand_over and step are of
// profiler/machine/kernel_costs.h.
// begin: what choosing experts and starting threads takes (profiler/machine/host_costs.h). The GPU computes the shared expert
// meanwhile, by three kernels. A prompt's step of m tokens takes, for each part, the larger of its bytes over
// the bandwidth and of its multiply-adds over the processor's rate; the part of the experts that m tokens read is counted
// (--activity) or, without counts, of tokens that choose as synth plants it (profiler/synthesis/planted_choice.h). With a
// GPU a hand-over of m rows a layer is added, and of both processors' work only the shared expert and the others overlap.
//
// A simulation of the engine's schedule takes as long within a tenth (tests/profiler/simulation/mixture_simulation_test.cpp).
//
// Left out: embeddings' rows, norms, and how well processors multiply where an expert has few of a prompt's tokens. Called by
// hearth-profiler plan and report; reads no weights.
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
  double experts = 0;       // of the GPU's layers and of the others, or a shared expert that takes longer
  double host_whole = 0;    // everything else that the CPU reads
  double kernels = 0;
  double hand_overs = 0;  // with the choice of experts and the start of threads
  double step = 0;        // outside the layers, with a GPU
  /// What is left if starting kernels and handing over cost nothing.
  double reading() const { return device_whole + experts + host_whole; }
  double seconds() const { return device_whole + experts + host_whole + kernels + hand_overs + step; }
};

/// Bytes of a part of the model: those that a token reads, on the GPU and in RAM.
struct MixtureBytes {
  std::string what;
  double on_gpu = 0, in_ram = 0;  // where they lie
  double read = 0;                // by one decoded token
};

struct MixturePlan {
  bool on_gpu = false;
  int n_device_layers = 0;
  int n_kv_contexts = 0;  // whose keys and values are in memory at once
  int64_t vram_budget = 0, ram_budget = 0;
  std::vector<MixtureBytes> parts;
  MixtureWork decode, prefill;  // of one token
  double experts_per_step = 0;  // that a layer reads in a prompt's step
  std::string experts_source;   // where that figure comes from

  double vram_bytes() const;
  double ram_bytes() const;
  double token_bytes() const;
};

/// counts: of the model's experts, or null. REQUIRES: the model has experts. Throws std::runtime_error (one sentence) if RAM
/// does not hold what the GPU does not take.
MixturePlan plan_mixture(const PlanQuestion& question, const ActivityCounts* counts);

std::vector<std::pair<std::string, std::string>> mixture_lines(const PlanQuestion& question,
                                                               const MixturePlan& plan);
/// What a token of `work` waits for most.
std::string mixture_bound(const MixtureWork& work);
std::string mixture_text(const PlanQuestion& question, const MixturePlan& plan);
std::string mixture_json(const PlanQuestion& question, const MixturePlan& plan);

}  // namespace hearth
