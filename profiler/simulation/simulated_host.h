// Defines the host of a simulation. It computes nothing, but spends the virtual time that the work would take
// on a machine with this profile.
//
// A matrix takes the larger of two times: to read it at the rate of the machine's RAM, and to multiply it at
// the rate of the machine's cores. Rows of single neurons are read at the rate of scattered rows, and divided
// among threads as in SparseFfn. Each expert that at least one token of a step chose is read once in the
// step; PlantedChoice decides which experts these are. Operations on a token's activations take a small fixed
// time. Time is virtual (kernels/base/virtual_time.h). Used on the engine thread.
#pragma once

#include <string>
#include <vector>

#include "engine/placement/host_costs.h"
#include "engine/placement/machine_profile.h"
#include "kernels/backend.h"
#include "kernels/cpu/host_experts.h"
#include "kernels/cpu/host_neurons.h"
#include "profiler/simulation/planted_activity.h"
#include "profiler/simulation/simulated_recurrent.h"
#include "profiler/synthesis/planted_choice.h"

namespace hearth {

class SimulatedHost final : public Backend, public HostNeurons, public HostExperts {
 public:
  /// All references must outlive this object. trace: receives a span for each computation; may be null.
  SimulatedHost(const HostProfile& host, double ram_bytes_per_s, double to_device_bytes_per_s,
                PlantedActivity& planted, PlantedChoice& choices, Trace* trace);

  /// These count since reset(): the seconds in which the CPU computed; the part of these seconds in which the
  /// device's kernels ran too; and the forks that woke threads.
  double busy_s() const { return busy_s_; }
  double busy_beside_device_s() const { return busy_beside_device_s_; }
  int64_t n_woken() const { return n_woken_; }
  void reset() {
    busy_s_ = busy_beside_device_s_ = 0;
    n_woken_ = 0;
  }

  void ffn_neuron_sums(const FfnNeurons& ffn, const float* x, int n_tokens, const NeuronSet& set,
                       const float* gates, const NeuronSums& sums, NeuronCounts& counts) override;
  void contribution_sums(const FfnNeurons& ffn, const float* x, int n_tokens, const NeuronSet& set,
                         float least, const NeuronSums& sums, NeuronCounts& counts) override;

  std::string description() const override { return "simulated " + host_.cpu; }
  Buffer allocate(size_t bytes) override;
  void reserve(const StepBounds& bounds) override { bounds_ = bounds; }
  NeuronSetId make_set() override;
  const NeuronSet& to_host(NeuronSetId set) override { return sets_.at(set.index()); }
  using Backend::to_host;
  void embed(const Matrix&, std::span<const int32_t>, float*) override { small(); }
  void add(const float*, int64_t, float*) override { small(); }
  void copy(const float*, int64_t, float*) override { small(); }
  void copy_rows(const float*, int64_t, int64_t, int64_t, float*, int64_t) override { small(); }
  void zero(int64_t, float*) override { small(); }
  void scale(float, int64_t, float*) override { small(); }
  void scale_rows(const float*, int64_t, int64_t, float*) override { small(); }
  void scale_columns(const float*, int64_t, int64_t, float*) override { small(); }
  void mix_rows(const MixedRows&) override { small(); }
  void soft_cap(float, int64_t, float*) override { small(); }
  void rms_norm(const float*, const float*, float, int64_t, int64_t, float*, int64_t) override { small(); }
  void layer_norm(const float*, const float*, const float*, float, int64_t, int64_t, float*,
                  int64_t) override {
    small();
  }
  void match_rows(const float*, float, int64_t, int64_t, float*) override { small(); }
  void cut_rows(float, int64_t, int64_t, float*) override { small(); }
  void matmul(const float* x, int n_tokens, std::span<const Product> products) override;
  void multiply_heads(const HeadProducts& products, int n_tokens) override;
  void rope(float*, int64_t, int, int, std::span<const int32_t>, const Rope&) override { small(); }
  void kv_append(const float*, const float*, int64_t, const KvPlaces&, const KvShape&, KvLayer) override {
    small();
  }
  void attention(const float* q, int64_t stride, int n_heads, const AttentionScores& scores,
                 const KvPlaces& places, const KvShape& shape, KvLayer layer, float* out) override;
  void gated_activation(FfnActivation, const float*, const float*, int64_t, float*) override { small(); }
  void select_neurons(const float* values, const float* sizes, int n_tokens, int64_t n_neurons,
                      float at_least, NeuronSetId set) override;
  void ffn_neurons(const FfnNeurons& ffn, const float* x, int n_tokens, NeuronSetId set, const float* gates,
                   float* out, NeuronCounts& counts) override;
  void down_neurons(const DownColumns& down, const float* values, int n_tokens, NeuronSetId set, float* out,
                    NeuronCounts& counts) override;
  ExpertChoice route(const float* logits, int n_tokens, const Router& router) override;
  void experts(std::span<const Expert> experts, FfnActivation activation, const float* x,
               const ExpertChoice& choice, float* out, ExpertCounts& counts) override;
  void missing_expert_rows(std::span<const Expert> experts, FfnActivation activation, const float* x,
                           const ExpertChoice& choice, const int32_t* slots, float* rows,
                           ExpertCounts& counts) override;
  void gather_rows(const float*, int64_t, std::span<const int32_t>, float*) override { small(); }
  RecurrentOps* recurrent() override { return &recurrent_; }

 private:
  void small();
  void compute(double seconds, int n_forks = 1);
  /// Spends the time to read `bytes` from RAM or to multiply, whichever is longer.
  void read(double bytes, double multiply_adds);
  void compute_experts(std::span<const Expert> experts, const ExpertChoice& choice, const int32_t* slots,
                       ExpertCounts& counts);
  double rows_seconds(const FfnNeurons* ffn, const DownColumns& down, int n_tokens, const NeuronSet& set,
                      bool gates_known, NeuronCounts& counts);

  const HostProfile& host_;
  const double ram_bytes_per_s_, to_device_bytes_per_s_;
  PlantedActivity& planted_;
  PlantedChoice& choices_;
  Trace* const trace_;
  const HostCosts costs_;
  StepBounds bounds_;
  std::vector<NeuronSet> sets_;
  SimulatedRecurrent recurrent_{[this](double bytes, double multiply_adds) { read(bytes, multiply_adds); },
                                [this] { small(); }};
  double last_work_ = -1, busy_s_ = 0, busy_beside_device_s_ = 0;
  int64_t n_woken_ = 0;
  std::vector<int32_t> only_expert_;  // for routers with a single expert: that expert, for each token
  std::vector<float> only_weight_;
};

}  // namespace hearth
