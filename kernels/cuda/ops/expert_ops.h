// The CUDA backend's operations on mixtures of experts (kernels/experts.h): choosing experts, grouping the
// pairs whose experts are on the device, their products, and the sum of each token's rows.
//
// A pair is a token and one of its experts; pair t * n_used + j is token t's j-th choice. A pair is resident
// if its expert has a slot (DeviceExperts), otherwise missing; the CPU computes missing pairs. Resident pairs
// are sorted by slot, and a pair's place in that order is its row. A step of a layer:
//   1. route() chooses from the router's logits, and group_pairs() sorts, or route_and_group() does both;
//   2. expert_products() multiplies with gate and up, expert_activation() follows, expert_products() with
//      down;
//   3. combine() adds each token's rows, those of missing pairs from host memory.
//
// Memory, streams, errors and arithmetic: as in ops.h. Only the device knows how many pairs are resident;
// launches cover the most there can be.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>
#include <span>

#include "kernels/cuda/ops/expert_types.h"
#include "kernels/cuda/ops/ops.h"
#include "kernels/experts.h"

namespace hearth::cuda {

/// ExpertChoice in device memory, with slots.
struct DeviceChoice {
  int n_tokens = 0;
  int n_used = 0;
  int32_t* experts = nullptr;  // [n_tokens, n_used] the best first
  float* weights = nullptr;    // [n_tokens, n_used]
  int32_t* slots = nullptr;    // [n_tokens, n_used] the experts' slots, -1 where missing

  int64_t n_pairs() const { return int64_t{n_tokens} * n_used; }
};

/// Backend::route(), and looks up the slots. Sizes and choice_bias of `router` are as in Router; choice_bias
/// is device memory. slot_of: [n_experts] DeviceExperts::slot_of; null: all experts are missing. Writes
/// out.n_tokens rows from as many rows of logits [n_tokens, n_experts]. REQUIRES: out.n_used ==
/// router.n_used.
void route(const float* logits, const Router& router, const int32_t* slot_of, const DeviceChoice& out,
           cudaStream_t stream);

/// At most tile_rows neighboring rows with the same slot.
struct alignas(16) ExpertTile {
  int32_t slot, expert;
  int32_t first_row, n_rows;
};

/// The resident pairs of a step, sorted by slot, then by pair. Arrays are device memory.
struct ExpertGroups {
  int32_t* row_of_pair = nullptr;   // [n_pairs] -1 for missing pairs
  int32_t* token_of_row = nullptr;  // [n_rows]
  ExpertTile* tiles = nullptr;      // [n_tiles] ascending rows; a slot's rows are divided into tiles
  int32_t* counts = nullptr;        // [2] n_tiles, n_rows
  int n_tokens = 0;
  int64_t n_pairs = 0;
  int n_slots = 0;
  /// The most rows of a tile: 1, 4, 16, 32 or 64, the more the more tokens an expert has on average. Decides
  /// which kernel expert_products() launches.
  int tile_rows = 1;
  int64_t max_tiles = 0;  // at least n_tiles
  /// expert_products() computes the rows of these slots only, and its matrices begin with first_slot.
  int first_slot = 0, end_slot = kMostExperts;
};

/// Bytes of the arrays for steps of at most max_tokens tokens. groups_in() lays out those of a step in that
/// much memory, which must be 256-byte aligned. n_experts: of the layer. REQUIRES: 1 <= n_slots <=
/// kMostExperts.
size_t expert_groups_bytes(int max_tokens, int n_used);
ExpertGroups groups_in(void* memory, int n_tokens, int n_used, int n_experts, int n_slots);

/// Fills the arrays of `groups` from choice.slots and choice.experts. REQUIRES: groups.n_pairs ==
/// choice.n_pairs(); slots are below groups.n_slots.
void group_pairs(const DeviceChoice& choice, const ExpertGroups& groups, cudaStream_t stream);

/// Numbers all of a layer's experts, for a step that computes all of them on the device: numbers [n_experts]
/// gets the slots of the resident ones, and behind them, from n_slots on, a number for each missing one in
/// ascending order. REQUIRES: n_experts <= kMostExperts; n_slots experts have a slot.
void number_experts(const int32_t* slot_of, int n_experts, int n_slots, int32_t* numbers,
                    cudaStream_t stream);

/// route() and group_pairs(), in one launch for at most kOneBlockTokens tokens.
void route_and_group(const float* logits, const Router& router, const int32_t* slot_of,
                     const DeviceChoice& choice, const ExpertGroups& groups, cudaStream_t stream);

/// Converts packed rows, as files have them, to slots' rows; for types of which they differ
/// (slot_rows_as_in_file()). n_rows * slot_row_bytes() bytes at `to`, which is 16-byte aligned; `raw` need
/// not be.
void write_slots(const std::byte* raw, DType type, int64_t n_rows, int64_t n_cols, std::byte* to,
                 cudaStream_t stream);

/// One product of expert_products().
struct ExpertProduct {
  Matrix weight;                // [n_slots * n_rows, n_cols]; rows lie as slot_rows() of expert_types.h says
  int64_t n_rows = 0;           // of an expert
  const float* bias = nullptr;  // [n_experts, n_rows] by expert, or null
  float* out = nullptr;         // [groups.n_pairs, n_rows] by row
};

/// The inputs of expert_products(): a row for each token, which resident pairs read by token_of_row, or a row
/// for each resident pair.
struct ExpertInputs {
  const float* x = nullptr;        // [n_tokens or n_rows, n_cols]; read for float weights
  QuantizedActivations quantized;  // read for quantized weights
  bool by_pair = false;            // whether inputs are by row of `groups`
};

/// For every row of `groups`: out row = (the slot's matrix) * input, plus the expert's bias. Rows of `out`
/// beyond n_rows stay as they are. At most kMostExpertProducts, which share the inputs; they run in one
/// launch if their matrices have the same type and number of columns.
inline constexpr size_t kMostExpertProducts = 2;
void expert_products(std::span<const ExpertProduct> products, const ExpertInputs& inputs,
                     const ExpertGroups& groups, cudaStream_t stream);

/// out [n_rows, d_expert] = act(gate) * up, or act(gate) if `up` is null, for the rows of `groups`; with
/// `quantized` also what quantize() makes of them. `out` may be `gate`. Arrays have room for groups.n_pairs
/// rows; those beyond n_rows stay as they are.
void expert_activation(FfnActivation act, const float* gate, const float* up, const ExpertGroups& groups,
                       int64_t d_expert, float* out, cudaStream_t stream,
                       const QuantizedActivations& quantized = {});

/// out [n_tokens, d_model] += the sum over a token's pairs, in the order of choice, of weight * row, with the
/// bits of CpuBackend::experts() into zeros, then of the shared expert, then of Backend::add(). rows:
/// [groups.n_pairs, d_model] by row_of_pair; host_rows: [n_pairs, d_model] by pair, pinned host memory, read
/// for missing pairs only; null: no pair is missing.
void combine(const DeviceChoice& choice, const int32_t* row_of_pair, const float* rows,
             const float* host_rows, const GatedSharedExpert& shared, int64_t d_model, float* out,
             cudaStream_t stream, const QuantizedActivations& quantized = {});

}  // namespace hearth::cuda
