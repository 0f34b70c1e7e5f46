// The CUDA backend's operations on mixtures of experts (kernels/experts.h): they choose experts, group the
// pairs whose experts are on the device, compute the products of these pairs, and add up each token's rows.
//
// A pair is a token and one of its experts. Pair t * n_used + j is the j-th choice of token t. A pair is
// resident if its expert has a slot (DeviceExperts). Otherwise it is missing, and the CPU computes it.
// Resident pairs are sorted by slot, and the row of a pair is its place in that order. In each step, a layer
// takes these operations:
//   1. route() chooses experts by the router's logits, and group_pairs() sorts the pairs; route_and_group()
//      does both;
//   2. expert_products() multiplies by gate and up, expert_activation() applies the activation, and
//      expert_products() multiplies by down;
//   3. combine() adds up each token's rows. It reads the rows of missing pairs from host memory.
// If zeros are skipped, list_active() and add_active_rows() replace the activation and the product with down.
//
// The rules of ops.h for memory, streams, errors and arithmetic apply. Only the device has the number of
// resident pairs, so launches cover the maximum.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>
#include <span>

#include "kernels/cuda/ops/expert_types.h"
#include "kernels/cuda/ops/ops.h"
#include "kernels/experts.h"

namespace hearth::cuda {

/// An ExpertChoice in device memory, with the slots of the experts.
struct DeviceChoice {
  int n_tokens = 0;
  int n_used = 0;
  int32_t* experts = nullptr;  // [n_tokens, n_used] the best first
  float* weights = nullptr;    // [n_tokens, n_used]
  int32_t* slots = nullptr;    // [n_tokens, n_used] the experts' slots; -1: missing

  int64_t n_pairs() const { return int64_t{n_tokens} * n_used; }
};

/// Like Backend::route(), and also looks up the slots of the chosen experts. Reads logits [out.n_tokens,
/// n_experts] and fills the arrays of `out`. router.choice_bias is in device memory. slot_of: [n_experts],
/// see DeviceExperts::slot_of; null: all experts are missing. REQUIRES: out.n_used == router.n_used.
void route(const float* logits, const Router& router, const int32_t* slot_of, const DeviceChoice& out,
           cudaStream_t stream);

/// A tile: at most tile_rows neighboring rows with the same slot.
struct alignas(16) ExpertTile {
  int32_t slot, expert;
  int32_t first_row, n_rows;
};

/// The resident pairs of a step, sorted by slot, then by pair. The arrays are in device memory.
struct ExpertGroups {
  int32_t* row_of_pair = nullptr;   // [n_pairs] -1 for missing pairs
  int32_t* token_of_row = nullptr;  // [n_rows]
  ExpertTile* tiles = nullptr;  // [n_tiles] by ascending row; the rows of each slot are divided into tiles
  int32_t* counts = nullptr;    // [2] n_tiles, n_rows
  int n_tokens = 0;
  int64_t n_pairs = 0;
  int n_slots = 0;
  /// The maximum number of rows per tile: 1, 4, 16, 32 or 64. It grows with the mean number of tokens per
  /// expert, and determines which kernel expert_products() launches.
  int tile_rows = 1;
  int64_t max_tiles = 0;  // at least n_tiles
  /// expert_products() computes only rows of slots [first_slot, end_slot). The matrices that it gets begin
  /// with the matrix of first_slot.
  int first_slot = 0, end_slot = kMostExperts;
};

/// expert_groups_bytes() returns the bytes that the arrays need for steps of at most max_tokens tokens.
/// groups_in() lays out the arrays for one step in that much memory, which must be 256-byte aligned.
/// n_experts: experts of the layer. REQUIRES: 1 <= n_slots <= kMostExperts.
size_t expert_groups_bytes(int max_tokens, int n_used);
ExpertGroups groups_in(void* memory, int n_tokens, int n_used, int n_experts, int n_slots);

/// Fills the arrays of `groups` from choice.slots and choice.experts. REQUIRES: groups.n_pairs ==
/// choice.n_pairs(); all slots are below groups.n_slots.
void group_pairs(const DeviceChoice& choice, const ExpertGroups& groups, cudaStream_t stream);
/// Does the same on the host. REQUIRES: the host can access the arrays, as on a simulated device.
void group_pairs_on_host(const DeviceChoice& choice, const ExpertGroups& groups);

/// A set of experts, which kernels get by value.
struct ExpertBits {
  uint64_t words[kMostExperts / 64] = {};

  void insert(int32_t expert) { words[expert / 64] |= uint64_t{1} << (expert % 64); }
};

/// Numbers the experts of a layer that the device computes in a step that copies missing experts. numbers
/// [n_experts] gets the slot of each resident expert, and -1 for each expert in `skipped`, which must be
/// missing. The other missing experts get the numbers from n_slots on, in ascending order. REQUIRES:
/// n_experts <= kMostExperts; exactly n_slots experts have a slot.
void number_experts(const int32_t* slot_of, int n_experts, int n_slots, const ExpertBits& skipped,
                    int32_t* numbers, cudaStream_t stream);

/// Does the work of route() and group_pairs(), in one launch if there are at most kOneBlockTokens tokens.
void route_and_group(const float* logits, const Router& router, const int32_t* slot_of,
                     const DeviceChoice& choice, const ExpertGroups& groups, cudaStream_t stream);

/// Converts packed rows from the file's layout to the layout of slots, for types with different layouts
/// (slot_rows_as_in_file()). Writes n_rows * slot_row_bytes() bytes. `to` must be 16-byte aligned; `raw` may
/// have any alignment.
void write_slots(const std::byte* raw, DType type, int64_t n_rows, int64_t n_cols, std::byte* to,
                 cudaStream_t stream);

/// Updates the table of a layer's slots: from now on `slot` has `expert` instead of `evicted`.
void change_slot(int32_t* slot_of, int32_t slot, int32_t expert, int32_t evicted, cudaStream_t stream);

/// One product of expert_products().
struct ExpertProduct {
  Matrix weight;       // [n_slots * n_rows, n_cols] the experts' rows by slot, in the layout of slot_rows()
                       // (expert_types.h)
  int64_t n_rows = 0;  // of an expert
  const float* bias = nullptr;  // [n_experts, n_rows] by expert, or null
  float* out = nullptr;         // [groups.n_pairs, n_rows] by row
};

/// The inputs of expert_products(). There is either one row per token, which resident pairs find by
/// token_of_row, or one row per resident pair.
struct ExpertInputs {
  const float* x = nullptr;        // [n_tokens or n_rows, n_cols]; read for float weights
  QuantizedActivations quantized;  // read for quantized weights
  bool by_pair = false;            // whether inputs are by row of `groups`
};

/// Computes for every row of `groups`: out row = (matrix of the row's slot) * input + bias of the expert.
/// Rows of `out` beyond n_rows do not change. There may be at most kMostExpertProducts products, which share
/// the inputs. They run in one launch if their matrices have the same type and number of columns.
inline constexpr size_t kMostExpertProducts = 2;
void expert_products(std::span<const ExpertProduct> products, const ExpertInputs& inputs,
                     const ExpertGroups& groups, cudaStream_t stream);

/// out [n_rows, d_expert] = act(gate) * up for the rows of `groups`, or act(gate) if `up` is null. If the
/// arrays of `quantized` are not null, they get the quantized output. `out` may be the same array as `gate`.
/// All arrays must have room for groups.n_pairs rows; rows beyond n_rows do not change.
void expert_activation(FfnActivation act, const float* gate, const float* up, const ExpertGroups& groups,
                       int64_t d_expert, float* out, cudaStream_t stream,
                       const QuantizedActivations& quantized = {});

/// The active neurons of each row of an ExpertGroups, that is, those whose value is not zero.
struct ActiveOfRows {
  int32_t* ids = nullptr;   // [n_pairs, d_expert] of each row the first n are valid, ascending
  float* values = nullptr;  // [n_pairs, d_expert] the same places
  int32_t* n = nullptr;     // [n_pairs]
};

/// Lists the neurons whose value act(gate) * up is not zero and whose act(gate) is not zero; without `up`,
/// the value is act(gate). gate, up: [groups.n_pairs, d_expert]. to.values may be the memory of `gate`, and
/// to.ids that of `up`. Adds to DeviceCounts::of_experts_passed and of_experts_active.
void list_active(FfnActivation act, const float* gate, const float* up, const ExpertGroups& groups,
                 int64_t d_expert, const ActiveOfRows& to, DeviceCounts* counts, cudaStream_t stream);

/// Writes to each row of out [groups.n_pairs, d_model] the sum of value * down row over the row's active
/// neurons, plus the bias of the expert [n_experts, d_model] unless it is null. The bits are those of
/// ExpertNeurons on the CPU (kernels/cpu/experts/expert_neurons.h). Rows of slots outside of
/// [groups.first_slot, groups.end_slot) do not change. first: the packed columns of groups.first_slot
/// (kernels/quant/coded_columns.h); those of the next slots follow, slot_bytes apart.
void add_active_rows(const DownColumns& first, size_t slot_bytes, const ActiveOfRows& active,
                     const ExpertGroups& groups, const float* bias, float* out, cudaStream_t stream);

/// out [n_tokens, n_cols] = x [n_tokens, n_cols] times the weight of each token's only expert. If the arrays
/// of `quantized` are not null, they get the quantized output, and n_cols is a multiple of 32. REQUIRES:
/// choice.n_used is 1.
void weigh_inputs(const DeviceChoice& choice, const float* x, int64_t n_cols, float* out, cudaStream_t stream,
                  const QuantizedActivations& quantized = {});

/// out [n_tokens, d_model] += the sum of weight * row over each token's pairs, in the order of choice, plus
/// the gated row of the shared expert if there is one. The bits are the same as after three steps on the CPU:
/// CpuBackend::experts() into zeros, adding the shared expert, and Backend::add(). rows: [groups.n_pairs,
/// d_model], indexed by row_of_pair. If choice.weights is null, all weights are 1. host_rows: [n_pairs,
/// d_model] in pinned host memory, indexed by pair and read only for missing pairs; null: no pair is missing.
void combine(const DeviceChoice& choice, const int32_t* row_of_pair, const float* rows,
             const float* host_rows, const GatedSharedExpert& shared, int64_t d_model, float* out,
             cudaStream_t stream, const QuantizedActivations& quantized = {});

}  // namespace hearth::cuda
