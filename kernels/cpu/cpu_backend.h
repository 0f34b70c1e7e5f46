// The Backend on the CPU.
//
// Owned by the engine's runtime; called by the engine thread. Each operation is cut into pieces of whole
// output elements for the pool's threads; the arithmetic of a piece is in the tables of one ISA
// (matmul_kernels.h, vector_kernels.h). Only one thread computes each sum, so results do not depend on the
// number of threads.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "kernels/backend.h"
#include "kernels/cpu/attention.h"
#include "kernels/cpu/experts/expert_ffn.h"
#include "kernels/cpu/experts/expert_router.h"
#include "kernels/cpu/host_experts.h"
#include "kernels/cpu/host_neurons.h"
#include "kernels/cpu/indexer_cpu.h"
#include "kernels/cpu/isa/isa.h"
#include "kernels/cpu/isa/matmul_kernels.h"
#include "kernels/cpu/isa/vector_kernels.h"
#include "kernels/cpu/matmul/matmul_jobs.h"
#include "kernels/cpu/matmul/row_cost.h"
#include "kernels/cpu/recurrent_cpu.h"
#include "kernels/cpu/rope_table.h"
#include "kernels/cpu/sparse_ffn.h"
#include "kernels/cpu/threads/thread_pool.h"

namespace hearth {

class CpuBackend : public Backend, public HostNeurons, public HostExperts, public IndexerOps {
 public:
  /// Throws std::invalid_argument if n_threads < 1 or the machine cannot run `isa`, std::system_error if the
  /// system grants no more threads.
  /// quota: see ThreadPool's constructor.
  CpuBackend(int n_threads, Isa isa, ActivationBits bits = ActivationBits::k15,
             double quota = cgroup_cpu_limit());

  std::string description() const override;
  int n_threads() const { return pool_.n_threads(); }

  void bind_thread() override { pool_.bind_threads(); }
  void expect_work() override { pool_.expect_work(); }

  /// This backend's threads, which may do other work between its calls.
  ThreadPool& threads() { return pool_; }

  /// The system provides pages at first use, so the unused part of a KV cache takes address space, but no
  /// memory.
  Buffer allocate(size_t bytes) override;
  /// Also REQUIRES: in all later calls, n_heads * head_dim <= max_cols.
  void reserve(const StepBounds& bounds) override;

  void embed(const Matrix& table, std::span<const int32_t> tokens, float* out) override;
  void add(const float* x, int64_t n, float* out) override;
  void copy(const float* x, int64_t n, float* out) override;
  void copy_rows(const float* x, int64_t stride, int64_t n_rows, int64_t n_cols, float* out,
                 int64_t out_stride) override;
  void zero(int64_t n, float* out) override;
  void scale(float factor, int64_t n, float* out) override;
  void scale_rows(const float* factors, int64_t n_rows, int64_t n_cols, float* out) override;
  void scale_columns(const float* factors, int64_t n_rows, int64_t n_cols, float* out) override;
  void mix_rows(const MixedRows& call) override;
  void soft_cap(float cap, int64_t n, float* out) override;
  void rms_norm(const float* x, const float* weight, float eps, int64_t n_rows, int64_t n_cols, float* out,
                int64_t n_weights = 1) override;
  void layer_norm(const float* x, const float* weight, const float* bias, float eps, int64_t n_rows,
                  int64_t n_cols, float* out, int64_t n_weights = 1) override;
  void match_rows(const float* to, float least, int64_t n_rows, int64_t n_cols, float* x) override;
  void cut_rows(float n_deviations, int64_t n_rows, int64_t n_cols, float* x) override;
  void matmul(const float* x, int n_tokens, std::span<const Product> products) override;
  void multiply_heads(const HeadProducts& products, int n_tokens) override;
  void rope(float* x, int64_t stride, int n_heads, int head_dim, std::span<const int32_t> positions,
            const Rope& rope) override;
  void kv_append(const float* k, const float* v, int64_t stride, const KvPlaces& places, const KvShape& shape,
                 KvLayer layer) override;
  void attention(const float* q, int64_t stride, int n_heads, const AttentionScores& scores,
                 const KvPlaces& places, const KvShape& shape, KvLayer layer, float* out) override;
  void gated_activation(FfnActivation act, const float* gate, const float* up, int64_t n,
                        float* out) override;
  NeuronSetId make_set() override;
  const NeuronSet& to_host(NeuronSetId set) override { return set_of(set); }
  void select_neurons(const float* values, const float* sizes, int n_tokens, int64_t n_neurons,
                      float at_least, NeuronSetId set) override {
    select_neurons(values, sizes, n_tokens, n_neurons, at_least, set_of(set));
  }
  void ffn_neurons(const FfnNeurons& ffn, const float* x, int n_tokens, NeuronSetId set, const float* gates,
                   float* out, NeuronCounts& counts) override {
    ffn_neurons(ffn, x, n_tokens, set_of(set), gates, out, counts);
  }
  void down_neurons(const DownColumns& down, const float* values, int n_tokens, NeuronSetId set, float* out,
                    NeuronCounts& counts) override {
    down_neurons(down, values, n_tokens, set_of(set), out, counts);
  }
  ExpertChoice route(const float* logits, int n_tokens, const Router& router) override;
  void experts(std::span<const Expert> experts, FfnActivation activation, const float* x,
               const ExpertChoice& choice, float* out, ExpertCounts& counts) override;
  RecurrentOps* recurrent() override { return &recurrent_; }
  void gather_rows(const float* x, int64_t n_cols, std::span<const int32_t> rows, float* out) override;

  // See IndexerOps.
  void reserve_indexer(const IndexerBounds& bounds) override { indexer_.reserve(bounds, *this); }
  void append_index(const float* k, const KvPlaces& places, int block_tokens, uint16_t* keys) override {
    indexer_.append(k, places, block_tokens, keys);
  }
  void choose_positions(const IndexQueries& queries, const KvPlaces& places, int block_tokens,
                        const uint16_t* keys, int32_t* chosen) override {
    indexer_.choose(queries, places, block_tokens, keys, chosen);
  }
  void attend_to_chosen(const ChosenQueries& queries, const KvPlaces& places, const KvShape& shape,
                        KvLayer layer, const int32_t* chosen, float* out) override {
    indexer_.attend(queries, places, shape, layer, chosen, out);
  }

  // These functions take a set in host memory instead of a NeuronSetId.
  using Backend::to_host;
  void select_neurons(const float* values, const float* sizes, int n_tokens, int64_t n_neurons,
                      float at_least, NeuronSet& set);
  void ffn_neurons(const FfnNeurons& ffn, const float* x, int n_tokens, const NeuronSet& set,
                   const float* gates, float* out, NeuronCounts& counts);
  void down_neurons(const DownColumns& down, const float* values, int n_tokens, const NeuronSet& set,
                    float* out, NeuronCounts& counts);

  /// Makes ffn_neurons() and down_neurons() sum over neurons with integers, like ffn_neuron_sums(), so that
  /// results do not depend on which layers a device computes. Must be called before reserve().
  void sum_as_integers() { integer_sums_ = true; }

  /// See HostExperts.
  void missing_expert_rows(std::span<const Expert> experts, FfnActivation activation, const float* x,
                           const ExpertChoice& choice, const int32_t* slots, float* rows,
                           ExpertCounts& counts) override;

  /// See HostNeurons.
  void ffn_neuron_sums(const FfnNeurons& ffn, const float* x, int n_tokens, const NeuronSet& set,
                       const float* gates, const NeuronSums& sums, NeuronCounts& counts) override;
  void contribution_sums(const FfnNeurons& ffn, const float* x, int n_tokens, const NeuronSet& set,
                         float least, const NeuronSums& sums, NeuronCounts& counts) override;
  /// Like ffn_neuron_sums(), for down_neurons().
  void down_neuron_sums(const DownColumns& down, const float* values, int n_tokens, const NeuronSet& set,
                        const NeuronSums& sums, NeuronCounts& counts);

  /// Selects the gate and up rows that a step of many tokens multiplies: only the rows of neurons that at
  /// least one token needs (kListed), all rows (kAll), or the faster of the two by measurement (kMeasured).
  enum class RowChoice : uint8_t { kMeasured, kListed, kAll };
  /// Overrides choices that otherwise depend on the number of tokens and on measured speed. No choice changes
  /// a bit of any result. Steps of up to few_tokens tokens (at most 16) use SparseFfn's path for few tokens.
  void choose_neuron_paths(int few_tokens, RowChoice rows) {
    few_tokens_ = std::min(few_tokens, SparseFfn::kMaxFewTokens);
    row_choice_ = rows;
  }

 private:
  /// Returns how many rows of row_floats floats a thread processes as one piece of an elementwise operation.
  static int64_t row_grain(int64_t row_floats);
  const std::byte* quantize(const float* x, int n_tokens, int64_t n_cols);
  int64_t multiply_neurons(const Matrix& weight, const float* bias, const float* x, int n_tokens,
                           const NeuronSet& set, float* out);
  const std::byte* quantized_for(const FfnNeurons& ffn, const float* x, int n_tokens, const float* gates);
  const NeuronSet& values_of_many(const FfnNeurons& ffn, const float* x, int n_tokens, const NeuronSet& set,
                                  const float* gates, NeuronCounts& counts);
  NeuronSums cleared_sums(int n_tokens, int64_t n_cols);
  void add_sums(const NeuronSums& sums, const float* bias, int n_tokens, int64_t n_cols, float* out);
  NeuronSet& set_of(NeuronSetId set) { return sets_.at(set.index()); }
  bool lists_rows(const Matrix& weight, const float* x, int n_tokens, std::span<const int32_t> ids);

  Isa isa_;
  ActivationBits bits_;
  StepBounds bounds_;
  std::vector<NeuronSet> sets_;  // by id
  const MatmulKernels& matmul_;
  const VectorKernels& vector_;
  ThreadPool pool_;
  MatmulJobs products_;
  Attention attention_;
  RopeTables rope_tables_;
  SparseFfn sparse_;
  ExpertRouter router_;
  ExpertFfn experts_;
  RecurrentCpu recurrent_;
  IndexerCpu indexer_;
  int few_tokens_ = SparseFfn::kMaxFewTokens;
  RowChoice row_choice_ = RowChoice::kMeasured;
  RowCost row_cost_;
  bool integer_sums_ = false;
  Buffer sums_;                  // [max_tokens, d_model] int64_t, if sums are integers
  std::vector<int32_t> poison_;  // [max_tokens], if sums are integers
  Buffer quantized_;             // activations of one matmul, quantized
  Buffer head_rows_;  // [n_heads, max_tokens, head_cols] packed input of one multiply_heads(), in floats
  std::vector<MatmulJob> head_jobs_;           // [n_heads]
  std::vector<std::vector<uint16_t>> halves_;  // per thread: a position's key for all heads, before it is
                                               // stored as a column
};

}  // namespace hearth
