// The operations of the CUDA backend. Each is one function in one .cu file and is enqueued on a stream.
//
// Pointers are 16-byte aligned device memory unless a comment says otherwise; Matrix views hold device
// addresses. Calls return at once and throw CudaError if the launch is refused; work runs in the order of the
// stream. No call allocates or synchronizes. A size may be 0; then nothing is launched.
//
// Arithmetic: the same bits as the CPU backend's, operation by operation (its order of sums is written down
// in kernels/cpu/isa/matmul_kernels.h and vector_kernels.h, and is the same on every instruction set). So a
// result does not depend on where a layer runs. Kernels use __fmaf_rn, __fmul_rn and __fadd_rn, so that nvcc
// contracts no operations, and __fdiv_rn and __fsqrt_rn, which round correctly. Float weights (F32, F16,
// BF16) follow the order of the vector kernels. The one exception is the sum over neurons: see NeuronSums.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>
#include <span>

#include "kernels/backend.h"
#include "kernels/matrix.h"
#include "kernels/neuron_sums.h"
#include "kernels/neurons.h"
#include "kernels/row_prefetcher.h"

namespace hearth::cuda {

// ---- matrix products -------------------------------------------------------------------------------------

/// Activations quantized as in kernels/cpu/isa/matmul_kernels.h: q = 256 * high + low.
struct QuantizedActivations {
  int8_t* high = nullptr;       // [n_tokens, n_cols]
  int8_t* low = nullptr;        // [n_tokens, n_cols]
  float* scale = nullptr;       // [n_tokens, n_cols / 32]
  int32_t* half_sum = nullptr;  // [n_tokens, n_cols / 16] sums of q over 16 columns
};

/// Bytes of the four arrays, which depend only on n_tokens * n_cols. quantized_in() lays the arrays out in
/// that much memory, which must be 256-byte aligned.
size_t quantized_bytes(int n_tokens, int64_t n_cols);
QuantizedActivations quantized_in(void* memory, int n_tokens, int64_t n_cols);

/// Quantizes x [n_tokens, n_cols]. n_cols is a multiple of 32.
void quantize(const float* x, int n_tokens, int64_t n_cols, const QuantizedActivations& out,
              cudaStream_t stream);

/// The inputs of Backend::multiply_heads: token t of head h is the row at x + h * head_stride + t * stride.
/// Alignment of a float suffices.
struct HeadInputs {
  const float* x = nullptr;
  int64_t stride = 0, head_stride = 0;
  int n_heads = 0;
};
/// Quantizes the heads' rows, packed by head: token t of head h is row h * n_tokens + t of `out`.
void quantize_heads(const HeadInputs& heads, int n_tokens, int64_t n_cols, const QuantizedActivations& out,
                    cudaStream_t stream);

/// Ascending numbers of rows or neurons. Only the device knows how many there are.
struct DeviceList {
  int32_t* ids = nullptr;  // [max]
  int32_t* n = nullptr;    // [1], at most max
  int64_t max = 0;
};

/// One product: see Product of kernels/backend.h.
struct MatmulOp {
  Matrix weight;
  const float* bias = nullptr;  // [weight.n_rows] or null, indexed by row number
  DeviceList rows;  // null ids: all rows; otherwise out[t * out_stride + i] is the product with row ids[i]
  /// With a list: row r of the product is row device_rows[r] of the matrix; null: it is row r.
  const int32_t* device_rows = nullptr;
  const float* x = nullptr;        // [n_tokens, n_cols]; read for float weights
  QuantizedActivations quantized;  // read for quantized weights
  int n_tokens = 0;
  float* out = nullptr;
  int64_t out_stride = 0;
  bool accumulate = false;
};
void matmul(const MatmulOp& op, cudaStream_t stream);

/// Products with the same x, at most kMostProducts. In steps of few tokens, neighboring products without
/// lists run in one launch if their matrices have the same type and shape.
inline constexpr size_t kMostProducts = 3;
void matmul(std::span<const MatmulOp> ops, cudaStream_t stream);

/// See Backend::multiply_heads. All heads are one launch, or two for quantized weights in steps of many
/// tokens: the first then quantizes to `room`, which must hold n_heads * n_tokens * n_cols activations if
/// needs_room().
void multiply_heads(const HeadProducts& products, int n_tokens, const QuantizedActivations& room,
                    cudaStream_t stream);
bool needs_room(const HeadProducts& products, int n_tokens);

/// out [n, table.n_cols] = dequantized rows tokens[i] of the table.
void embed(const Matrix& table, const int32_t* tokens, int64_t n, float* out, cudaStream_t stream);

// ---- rows and elements -----------------------------------------------------------------------------------
//
// Operations with `quantized` also quantize their output as quantize() would, if the arrays are not null.
// REQUIRES then: rows are a multiple of 32 floats.

void add(const float* x, int64_t n, float* out, cudaStream_t stream);  // out += x
/// out += x; x is pinned host memory.
void add_from_host(const float* x, int64_t n, float* out, cudaStream_t stream);
void copy(const float* x, int64_t n, float* out, cudaStream_t stream);
/// out[r * out_stride + c] = x[r * stride + c]. The pointers need no alignment beyond a float's.
void copy_rows(const float* x, int64_t stride, int64_t n_rows, int64_t n_cols, float* out, int64_t out_stride,
               cudaStream_t stream);
void zero(int64_t n, float* out, cudaStream_t stream);
void scale(float factor, int64_t n, float* out, cudaStream_t stream);  // out *= factor
void soft_cap(float cap, int64_t n, float* out, cudaStream_t stream);  // see Backend::soft_cap
/// weight and bias: [n_weights, n_cols]; row r takes row r mod n_weights.
void rms_norm(const float* x, const float* weight, float eps, int64_t n_rows, int64_t n_cols, float* out,
              int64_t n_weights, cudaStream_t stream, const QuantizedActivations& quantized = {});
void layer_norm(const float* x, const float* weight, const float* bias, float eps, int64_t n_rows,
                int64_t n_cols, float* out, int64_t n_weights, cudaStream_t stream,
                const QuantizedActivations& quantized = {});
void gated_activation(FfnActivation act, const float* gate, const float* up, int64_t n, float* out,
                      cudaStream_t stream, const QuantizedActivations& quantized = {});
/// out row i = x row rows[i].
void gather_rows(const float* x, int64_t n_cols, const int32_t* rows, int64_t n, float* out,
                 cudaStream_t stream);

// ---- attention -------------------------------------------------------------------------------------------

/// Heads of a step's tokens: [n_tokens, n_heads, head_dim], row t at x + t * stride.
struct HeadRows {
  float* x = nullptr;
  int64_t stride = 0;
  int n_heads = 0;
};
/// Rotates q, and k if it has heads. table: row t is at table + t * row_floats, in the layout of
/// VectorKernels::rotate. The host computes it (kernels/cpu/rope_table.h), because the results must be those
/// of the C library's sine and cosine.
void rope(const HeadRows& q, const HeadRows& k, int head_dim, RopeKind kind, int n_rot, const float* table,
          int64_t row_floats, int n_tokens, cudaStream_t stream);

/// See Backend::kv_append. The arrays of `places` are device memory.
void kv_append(const float* k, const float* v, int64_t stride, const KvPlaces& places, const KvShape& shape,
               KvLayer layer, cudaStream_t stream);

/// Bytes of scratch that attention() needs in steps within these bounds. If that is not 0, the first
/// attention_counter_bytes() must be 0 before the first call; each call leaves them 0.
inline constexpr int kSplitTokens = 32;
constexpr size_t attention_counter_bytes(int n_heads) {
  return sizeof(uint32_t) * kSplitTokens * static_cast<size_t>(n_heads);
}
size_t attention_scratch_bytes(int max_tokens, int n_heads, int head_dim, int max_context);

/// See Backend::attention. scores.sinks is device memory. longest: the largest number of keys up to a token
/// of the step, including keys that a window hides; a host value. quantized: see above; only in steps of at
/// most kSplitTokens tokens.
void attention(const float* q, int64_t stride, int n_heads, const AttentionScores& scores,
               const KvPlaces& places, const KvShape& shape, KvLayer layer, int longest, void* scratch,
               float* out, cudaStream_t stream, const QuantizedActivations& quantized = {});

// ---- neurons ---------------------------------------------------------------------------------------------

/// A set of neurons on the device, like NeuronSet on the host. A view of memory that Scratch takes from the
/// arena at load; reused from layer to layer.
struct DeviceNeuronSet {
  uint64_t* wanted = nullptr;    // [n_tokens, words], words = ceil(n_neurons / 64)
  uint64_t* any_bits = nullptr;  // [words] bits of the neurons that any token wants
  DeviceList any;                // the same neurons, ascending, once list_wanted() has listed them
  int n_tokens = 0;
  int64_t n_neurons = 0;

  /// Changes the set's size, within the bounds of its memory.
  void resize(int tokens, int64_t neurons) {
    n_tokens = tokens;
    n_neurons = any.max = neurons;
  }
};

/// In steps of at most this many tokens, one thread block also does small pieces of follow-up work, which
/// saves a launch.
inline constexpr int kOneBlockTokens = 4;

/// See Backend::select_neurons. Fills the set, except for its list.
void select_neurons(const float* values, const float* sizes, int n_tokens, int64_t n_neurons, float at_least,
                    const DeviceNeuronSet& set, cudaStream_t stream);

/// Fills set.any. The list is ascending because its order comes from counting, not from atomics.
void list_wanted(const DeviceNeuronSet& set, cudaStream_t stream);

/// Lists the numbers of the set bits among n_neurons bits, ascending; the first bit is neuron `first`.
void list_bits(const uint64_t* bits, int64_t n_neurons, const DeviceList& list, cudaStream_t stream,
               int64_t first = 0);

/// A set of neurons, split into those that are on the device and the others.
struct SplitSet {
  DeviceNeuronSet all;
  uint64_t* resident = nullptr;  // [words] bits of the neurons that have a device row
  DeviceNeuronSet hot;           // output: the neurons that have a device row, with their list
  uint64_t* cold = nullptr;      // output [n_tokens, words]: bits of the other neurons
  /// Output [2, words]: bits of the neurons that any token wants, then bits of the cold neurons among them.
  uint64_t* any = nullptr;
  bool cold_on_host = false;  // cold and any are host memory that the device writes
};
void split_set(const SplitSet& split, cudaStream_t stream);

/// Changes of a layer's device rows, in host memory that the device reads. The first n entries of the list
/// are valid.
struct RowChanges {
  int32_t n = 0;
  RowChange list[RowPrefetcher::kMaxChanges];
};
/// Applies the changes to the bits of resident [words] and the numbers of device_row [n_neurons]. If a neuron
/// changes several times, the last change counts.
void change_rows(const RowChanges* changes, uint64_t* resident, int32_t* device_row, cudaStream_t stream);

/// Keeps the neurons of `in` whose act(gate) is not zero for a token that wants them. Writes their ids to out
/// and their gates, by list index, to gates_out [n_tokens, out.max]. gates: [n_tokens, gates_stride], by
/// index in `in`. scratch: keep_scratch_bytes(in.max).
size_t keep_scratch_bytes(int64_t n_neurons);
void keep_passed(FfnActivation act, const DeviceNeuronSet& set, const DeviceList& in, const float* gates,
                 int64_t gates_stride, const DeviceList& out, float* gates_out, void* scratch,
                 cudaStream_t stream);

/// Counts summed on the device, with the meaning of NeuronCounts.
struct DeviceCounts {
  unsigned long long gate_rows, up_rows, down_rows, proposed, passed, active;

  void add_to(NeuronCounts& to) const {
    to.gate_rows += static_cast<int64_t>(gate_rows);
    to.up_rows += static_cast<int64_t>(up_rows);
    to.down_rows += static_cast<int64_t>(down_rows);
    to.proposed += static_cast<int64_t>(proposed);
    to.passed += static_cast<int64_t>(passed);
    to.active += static_cast<int64_t>(active);
  }
};

/// One call of the sparse FFN, or the part of it that computes one list.
struct GatedNeurons {
  FfnActivation activation;
  DeviceNeuronSet set;  // the neurons that the call began with
  DeviceList passed;    // the listed neurons whose up rows were read
  /// [n_tokens, gates_stride], by neuron number if gates_by_number, else by index in `passed`. Neurons whose
  /// gate is above the threshold count as passed, which is right only for the relus.
  const float* gates = nullptr;
  int64_t gates_stride = 0;
  bool gates_by_number = false;
  const float* ups = nullptr;  // [n_tokens, passed.max], by index in `passed`; null: there is no up
};
/// values [n_tokens, passed.max], by index in `passed`: act(gate) * up (without up: act(gate)) for tokens
/// that want the neuron, 0 for others. Adds what the call found to `counts` (null: nowhere).
void neuron_values(const GatedNeurons& neurons, float* values, DeviceCounts* counts, cudaStream_t stream);

/// values [n_tokens, set.any.max], by list index: copied from by_number [n_tokens, n_neurons] for tokens that
/// want the neuron, 0 for others. Adds what the call found to `counts`.
void listed_values(const DeviceNeuronSet& set, const float* by_number, float* values, DeviceCounts* counts,
                   cudaStream_t stream);

/// Sets values [n_tokens, list.max], by list index, to 0 where the contribution, |value| * sizes[neuron], is
/// below `least`. sizes: [set.n_neurons]. Adds the rest to `counts` (proposed, active and down rows), with
/// the same counts as select_neurons() with these sizes and neuron_values() would give.
void drop_below(const DeviceNeuronSet& set, const DeviceList& list, const float* sizes, float least,
                float* values, DeviceCounts* counts, cudaStream_t stream);

/// Where the active neurons of a call are noted, in host memory that the device writes.
struct NeuronNotes {
  int32_t* ids = nullptr;     // [max]; null: they are not noted
  float* values = nullptr;    // [n_tokens, max], by index in ids
  uint32_t* n = nullptr;      // [1] neurons noted, 0 before the first
  int64_t max = 0;            // the most neurons, over all lists of the call
  uint32_t* state = nullptr;  // device memory: [2] thread blocks done (0 at first), neurons noted
  bool first = true;          // whether this is the first list of the call
};
/// Appends a list and its values [n_tokens, list.max], by list index.
void note_neurons(const DeviceList& list, const float* values, int n_tokens, const NeuronNotes& to,
                  cudaStream_t stream);

/// NeuronSums with device pointers. All sums must be 0 when a sum begins.
using hearth::NeuronSums;

/// Adds the listed neurons' contributions to the sums. values [n_tokens, list.max] are by list index; zeros
/// cost nothing. device_rows: the row of every listed neuron, by number (for codes: the index of its codes);
/// null: its number.
void add_down(const DownColumns& down, const DeviceList& list, const float* values, int n_tokens,
              const NeuronSums& sums, cudaStream_t stream, const int32_t* device_rows = nullptr);

/// The CPU's sums of the same layer, in host memory that the device reads. If *any is 0, they are read and
/// not added. If `any` is null, there are none.
struct CpuSums {
  NeuronSums sums;
  const int32_t* any = nullptr;
};
/// Ends a sum: out [n_tokens, n_cols] += float(sums + of_cpu) * 2^-36 (+ bias), or NaN where one of the two
/// is poisoned. Sets sums and poison to 0. poison is 0 or 1 before.
void end_sums(const NeuronSums& sums, const CpuSums& of_cpu, const float* bias, int n_tokens, int64_t n_cols,
              float* out, cudaStream_t stream);

/// Arrays that are written to host memory together, and a number in host memory that tells the host when all
/// of them have arrived.
struct HandOver {
  struct Part {
    const void* from = nullptr;  // device memory; `from` and `to` are 16-byte aligned
    void* to = nullptr;          // host memory that the device writes
    int64_t n_words = 0;         // of 4 bytes
  };
  static constexpr int kMaxParts = 4;
  Part parts[kMaxParts];
  static constexpr size_t kStateWords = 2;
  uint32_t* state = nullptr;   // device memory, 0 at first: [2] thread blocks done, hand-overs done
  uint32_t* number = nullptr;  // host memory: hand-overs done, stored after all words of the hand-over
};
void hand_over(const HandOver& what, cudaStream_t stream);

/// The stages between a layer's set of neurons and the CPU's share: applies `changes` (null: none) to
/// split.resident and device_row, splits the set, and hands over `rest`. split.cold and split.any are host
/// memory and are valid once the hand-over's number has arrived. For few tokens this is one kernel.
void part_and_hand_over(const SplitSet& split, const RowChanges* changes, int32_t* device_row,
                        const HandOver& rest, cudaStream_t stream);

}  // namespace hearth::cuda
