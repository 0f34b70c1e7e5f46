// The operations of the CUDA backend. Each operation is a function in one .cu file, which enqueues work on a
// stream.
//
// Pointers are to device memory and 16-byte aligned, unless a comment states otherwise. Matrix views hold
// device addresses. Calls return at once; their work runs in stream order. They throw CudaError if a launch
// fails. No call allocates memory or synchronizes. If a size is 0, nothing is launched.
//
// Arithmetic: every operation gives the same bits as on the CPU backend, so a result does not depend on where
// a layer runs. The order of the CPU's sums is the same on every instruction set;
// kernels/cpu/isa/matmul_kernels.h and vector_kernels.h define it. Sums with float weights (F32, F16, BF16)
// follow the order of the vector kernels. The only sums without a defined order are the integer sums over
// neurons: see NeuronSums. Kernels use __fmaf_rn, __fmul_rn and __fadd_rn, so that nvcc does not contract
// operations, and __fdiv_rn and __fsqrt_rn, which round correctly.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>
#include <span>

#include "kernels/backend.h"
#include "kernels/experts.h"
#include "kernels/matrix.h"
#include "kernels/neuron_sums.h"
#include "kernels/neurons.h"
#include "kernels/row_prefetcher.h"

namespace hearth::cuda {

// ---- matrix products -------------------------------------------------------------------------------------

/// Activations that are quantized as in kernels/cpu/isa/matmul_kernels.h: q = 256 * high + low.
struct QuantizedActivations {
  int8_t* high = nullptr;       // [n_tokens, n_cols]
  int8_t* low = nullptr;        // [n_tokens, n_cols]
  float* scale = nullptr;       // [n_tokens, n_cols / 32]
  int32_t* half_sum = nullptr;  // [n_tokens, n_cols / 16] sums of q over 16 columns each
};

/// quantized_bytes() returns the bytes of the four arrays, which depend only on n_tokens * n_cols.
/// quantized_in() lays the arrays out in that much memory, which must be 256-byte aligned.
size_t quantized_bytes(int n_tokens, int64_t n_cols);
QuantizedActivations quantized_in(void* memory, int n_tokens, int64_t n_cols);

/// Quantizes x [n_tokens, n_cols]. REQUIRES: n_cols is a multiple of 32.
void quantize(const float* x, int n_tokens, int64_t n_cols, const QuantizedActivations& out,
              cudaStream_t stream);

/// The inputs of Backend::multiply_heads(). The row of token t and head h is at x + h * head_stride + t *
/// stride. Only the alignment of a float is required.
struct HeadInputs {
  const float* x = nullptr;
  int64_t stride = 0, head_stride = 0;
  int n_heads = 0;
};
/// Quantizes the rows of all heads. Row h * n_tokens + t of `out` belongs to token t and head h.
void quantize_heads(const HeadInputs& heads, int n_tokens, int64_t n_cols, const QuantizedActivations& out,
                    cudaStream_t stream);

/// An ascending list of row or neuron numbers. Only the device knows its length.
struct DeviceList {
  int32_t* ids = nullptr;  // [max]
  int32_t* n = nullptr;    // [1], at most max
  int64_t max = 0;
};

/// One product: see Product of kernels/backend.h.
struct MatmulOp {
  Matrix weight;
  const float* bias = nullptr;  // [weight.n_rows] or null, indexed by row number
  // If rows.ids is null, all rows are computed. Otherwise out[t * out_stride + i] is the product with row
  // rows.ids[i].
  DeviceList rows;
  /// Used only if rows.ids is set. The weights of listed row r are at row device_rows[r] of `weight`, or at
  /// row r if device_rows is null.
  const int32_t* device_rows = nullptr;
  const float* x = nullptr;        // [n_tokens, n_cols]; read for float weights
  QuantizedActivations quantized;  // read for quantized weights
  int n_tokens = 0;
  float* out = nullptr;
  int64_t out_stride = 0;
  bool accumulate = false;
};
void matmul(const MatmulOp& op, cudaStream_t stream);

/// Computes products with the same x, with at most kMostProducts per launch. In steps of few tokens,
/// neighboring products without row lists share a launch if their matrices have the same type, number of
/// columns and alignment.
inline constexpr size_t kMostProducts = 3;
void matmul(std::span<const MatmulOp> ops, cudaStream_t stream);

/// See Backend::multiply_heads(). One launch computes all heads. With quantized weights and many tokens,
/// another launch first quantizes the activations and stores them in `room`. needs_room() returns whether
/// this is the case; if so, `room` must have space for n_heads * n_tokens * n_cols activations.
void multiply_heads(const HeadProducts& products, int n_tokens, const QuantizedActivations& room,
                    cudaStream_t stream);
bool needs_room(const HeadProducts& products, int n_tokens);

/// Row i of out [n, table.n_cols] = the dequantized row tokens[i] of the table.
void embed(const Matrix& table, const int32_t* tokens, int64_t n, float* out, cudaStream_t stream);

// ---- rows and elements -----------------------------------------------------------------------------------
//
// Operations with a parameter `quantized` also quantize their output, like quantize(), if the arrays of
// `quantized` are not null. REQUIRES in this case: the number of columns is a multiple of 32.

void add(const float* x, int64_t n, float* out, cudaStream_t stream);  // out += x
/// out += x; x is pinned host memory.
void add_from_host(const float* x, int64_t n, float* out, cudaStream_t stream);
void copy(const float* x, int64_t n, float* out, cudaStream_t stream);
/// out[r * out_stride + c] = x[r * stride + c]. Only the alignment of a float is required.
void copy_rows(const float* x, int64_t stride, int64_t n_rows, int64_t n_cols, float* out, int64_t out_stride,
               cudaStream_t stream);
void zero(int64_t n, float* out, cudaStream_t stream);
void scale(float factor, int64_t n, float* out, cudaStream_t stream);  // out *= factor
/// out[r, c] *= factors[r]
void scale_rows(const float* factors, int64_t n_rows, int64_t n_cols, float* out, cudaStream_t stream);
/// out[r, c] *= factors[c]
void scale_columns(const float* factors, int64_t n_rows, int64_t n_cols, float* out, cudaStream_t stream);
void mix_rows(const MixedRows& call, cudaStream_t stream);             // see Backend::mix_rows
void soft_cap(float cap, int64_t n, float* out, cudaStream_t stream);  // see Backend::soft_cap
/// weight, bias: [n_weights, n_cols]. Row r of x uses row r % n_weights of `weight` and `bias`.
void rms_norm(const float* x, const float* weight, float eps, int64_t n_rows, int64_t n_cols, float* out,
              int64_t n_weights, cudaStream_t stream, const QuantizedActivations& quantized = {});
void layer_norm(const float* x, const float* weight, const float* bias, float eps, int64_t n_rows,
                int64_t n_cols, float* out, int64_t n_weights, cudaStream_t stream,
                const QuantizedActivations& quantized = {});
/// See Backend::match_rows() and Backend::cut_rows().
void match_rows(const float* to, float least, int64_t n_rows, int64_t n_cols, float* x, cudaStream_t stream);
void cut_rows(float n_deviations, int64_t n_rows, int64_t n_cols, float* x, cudaStream_t stream);
void gated_activation(FfnActivation act, const float* gate, const float* up, int64_t n, float* out,
                      cudaStream_t stream, const QuantizedActivations& quantized = {});
/// out row i = x row rows[i].
void gather_rows(const float* x, int64_t n_cols, const int32_t* rows, int64_t n, float* out,
                 cudaStream_t stream);

// ---- attention -------------------------------------------------------------------------------------------

/// The heads of a step's tokens: [n_tokens, n_heads, head_dim]. Token t is at x + t * stride.
struct HeadRows {
  float* x = nullptr;
  int64_t stride = 0;
  int n_heads = 0;
};
/// Rotates q, and also k if k.n_heads is not 0. table: the row of token t is at table + t * row_floats, in
/// the layout of VectorKernels::rotate(). The host computes the table (kernels/cpu/rope_table.h), because the
/// device's sines and cosines differ from the C library's in their last bits.
void rope(const HeadRows& q, const HeadRows& k, int head_dim, RopeKind kind, int n_rot, const float* table,
          int64_t row_floats, int n_tokens, cudaStream_t stream);

/// See Backend::kv_append(). The arrays of `places` are in device memory.
void kv_append(const float* k, const float* v, int64_t stride, const KvPlaces& places, const KvShape& shape,
               KvLayer layer, cudaStream_t stream);

/// attention_scratch_bytes() returns the bytes of scratch that attention() needs in any step that does not
/// exceed its arguments. If this is not 0, the first attention_counter_bytes() bytes of the scratch must be 0
/// before the first call of attention(). Each call sets them to 0 again before it ends.
inline constexpr int kSplitTokens = 32;
constexpr size_t attention_counter_bytes(int n_heads) {
  return sizeof(uint32_t) * kSplitTokens * static_cast<size_t>(n_heads);
}
size_t attention_scratch_bytes(int max_tokens, int n_heads, int head_dim, int max_context);

/// See Backend::attention(). scores.sinks is in device memory. longest: the largest number of keys that a
/// token of the step has, up to and including its own key; keys that a sliding window hides count, too.
/// quantized: as for the operations on rows above, but may be set only in steps of at most kSplitTokens
/// tokens.
void attention(const float* q, int64_t stride, int n_heads, const AttentionScores& scores,
               const KvPlaces& places, const KvShape& shape, KvLayer layer, int longest, void* scratch,
               float* out, cudaStream_t stream, const QuantizedActivations& quantized = {});

// ---- neurons ---------------------------------------------------------------------------------------------

/// A set of neurons on the device, like NeuronSet on the host. It is a view. The memory belongs to Scratch,
/// which allocates it at load, and all layers reuse it.
struct DeviceNeuronSet {
  uint64_t* wanted = nullptr;    // [n_tokens, words], words = ceil(n_neurons / 64)
  uint64_t* any_bits = nullptr;  // [words] bits of the neurons that at least one token wants
  DeviceList any;                // list of the same neurons, filled by list_wanted()
  int n_tokens = 0;
  int64_t n_neurons = 0;

  /// Changes the set's size, within the bounds of its memory.
  void resize(int tokens, int64_t neurons) {
    n_tokens = tokens;
    n_neurons = any.max = neurons;
  }
};

/// In steps of at most this many tokens, small pieces of work are done by one thread block at the end of
/// another kernel, which saves a launch.
inline constexpr int kOneBlockTokens = 4;

/// See Backend::select_neurons(). Fills `set` except for the list set.any.
void select_neurons(const float* values, const float* sizes, int n_tokens, int64_t n_neurons, float at_least,
                    const DeviceNeuronSet& set, cudaStream_t stream);

/// Fills the list set.any. It is ascending, because places in the list are found by counting bits, not by
/// atomic additions.
void list_wanted(const DeviceNeuronSet& set, cudaStream_t stream);

/// Lists the neurons whose bits are set among n_neurons bits, ascending. The first bit belongs to neuron
/// `first`.
void list_bits(const uint64_t* bits, int64_t n_neurons, const DeviceList& list, cudaStream_t stream,
               int64_t first = 0);

/// A set of neurons, and its split into hot neurons, which have a device row, and cold neurons, which have
/// none.
struct SplitSet {
  DeviceNeuronSet all;
  uint64_t* resident = nullptr;  // [words] bits of the neurons that have a device row
  DeviceNeuronSet hot;           // output: wanted neurons that have a device row, with their list
  uint64_t* cold = nullptr;  // output [n_tokens, words]: bits of the wanted neurons that have no device row
  /// Output [2, words]: bits of the neurons that at least one token wants, then bits of the cold neurons
  /// among them.
  uint64_t* any = nullptr;
  bool cold_on_host = false;  // whether cold and any are in host memory, which the device writes
};
void split_set(const SplitSet& split, cudaStream_t stream);

/// Changes of a layer's device rows, in host memory that the device reads. Only the first n entries of the
/// list are valid.
struct RowChanges {
  int32_t n = 0;
  RowChange list[RowPrefetcher::kMaxChanges];
};
/// Applies the changes to resident [words], the bits of the neurons with a device row, and to device_row
/// [n_neurons]. If a neuron changes several times, only the last change counts.
void change_rows(const RowChanges* changes, uint64_t* resident, int32_t* device_row, cudaStream_t stream);

/// Finds the neurons of `in` whose act(gate) is not zero for at least one token that wants them. Lists these
/// neurons in `out`, and copies their gates from gates [n_tokens, gates_stride], which are ordered like `in`,
/// to gates_out [n_tokens, out.max], ordered like `out`. scratch: keep_scratch_bytes(in.max) bytes.
size_t keep_scratch_bytes(int64_t n_neurons);
void keep_passed(FfnActivation act, const DeviceNeuronSet& set, const DeviceList& in, const float* gates,
                 int64_t gates_stride, const DeviceList& out, float* gates_out, void* scratch,
                 cudaStream_t stream);

/// Counts that the device sums up. Members without a comment have the same meaning as in NeuronCounts.
struct DeviceCounts {
  unsigned long long gate_rows, up_rows, down_rows, proposed, passed, active;
  unsigned long long of_experts_passed, of_experts_active;  // passed and active of ExpertCounts

  void add_to(NeuronCounts& to) const {
    to.gate_rows += static_cast<int64_t>(gate_rows);
    to.up_rows += static_cast<int64_t>(up_rows);
    to.down_rows += static_cast<int64_t>(down_rows);
    to.proposed += static_cast<int64_t>(proposed);
    to.passed += static_cast<int64_t>(passed);
    to.active += static_cast<int64_t>(active);
  }
  void add_to(ExpertCounts& to) const {
    to.passed += static_cast<int64_t>(of_experts_passed);
    to.active += static_cast<int64_t>(of_experts_active);
  }
};

/// One call of the sparse FFN, or the part of a call that computes one list.
struct GatedNeurons {
  FfnActivation activation;
  DeviceNeuronSet set;  // the neurons that the call began with
  DeviceList passed;    // list of the neurons whose up rows were read
  /// [n_tokens, gates_stride], by neuron number if gates_by_number, else by index in `passed`. A neuron whose
  /// gate is above activation.threshold counts as passed, that is, as having act(gate) != 0. This rule is
  /// correct only for ReLU activations.
  const float* gates = nullptr;
  int64_t gates_stride = 0;
  bool gates_by_number = false;
  const float* ups = nullptr;  // [n_tokens, passed.max], by index in `passed`; null: the FFN has no up
};
/// Writes act(gate) * up to values [n_tokens, passed.max], by index in `passed`, for tokens that want the
/// neuron, and 0 for other tokens. If ups is null, writes act(gate) instead. Adds the call's counts to
/// `counts` unless it is null.
void neuron_values(const GatedNeurons& neurons, float* values, DeviceCounts* counts, cudaStream_t stream);

/// Copies by_number [n_tokens, n_neurons] to values [n_tokens, set.any.max], by list index, for tokens that
/// want the neuron, and writes 0 for other tokens. Adds the call's counts to `counts`.
void listed_values(const DeviceNeuronSet& set, const float* by_number, float* values, DeviceCounts* counts,
                   cudaStream_t stream);

/// Sets entries of values [n_tokens, list.max], by list index, to 0 if their contribution |value| *
/// sizes[neuron] is below `least`. sizes: [set.n_neurons]. Adds the other entries to `counts` (proposed,
/// active, down_rows). The counts are the same as after select_neurons() with these sizes, followed by
/// neuron_values().
void drop_below(const DeviceNeuronSet& set, const DeviceList& list, const float* sizes, float least,
                float* values, DeviceCounts* counts, cudaStream_t stream);

/// The host memory to which the device writes the active neurons of one call.
struct NeuronNotes {
  int32_t* ids = nullptr;   // [max]; null: nothing is written
  float* values = nullptr;  // [n_tokens, max], by index in ids
  uint32_t* n = nullptr;    // [1] number of neurons written; 0 before the first list
  int64_t max = 0;          // maximum number of neurons in all lists of the call
  // [2] in device memory: number of thread blocks done (initially 0), number of neurons written
  uint32_t* state = nullptr;
  bool first = true;  // whether this is the first list of the call
};
/// Appends a list of neurons and their values [n_tokens, list.max], by list index.
void note_neurons(const DeviceList& list, const float* values, int n_tokens, const NeuronNotes& to,
                  cudaStream_t stream);

/// Here NeuronSums holds device pointers. All sums must be 0 at the beginning of a layer.
using hearth::NeuronSums;

/// Adds the contributions of the listed neurons to the sums. values: [n_tokens, list.max], by list index. The
/// rows of neurons whose values are all zero are not read. device_rows: by neuron number, the neuron's row in
/// `down` (for coded columns, the index of its codes). Null: the row is the neuron's number.
void add_down(const DownColumns& down, const DeviceList& list, const float* values, int n_tokens,
              const NeuronSums& sums, cudaStream_t stream, const int32_t* device_rows = nullptr);

/// The CPU's sums for the same layer, in host memory that the device reads. If *any is 0, the sums are
/// ignored. If `any` is null, there are no sums.
struct CpuSums {
  NeuronSums sums;
  const int32_t* any = nullptr;
};
/// Ends the sums of a layer. Adds float(sums + of_cpu) * 2^-36 to out [n_tokens, n_cols], and then bias
/// [n_cols] if it is not null. If a token's poison in `sums` or of_cpu is 1, the token gets NaNs. Resets
/// `sums` and its poison to 0. REQUIRES: poison is 0 or 1.
void end_sums(const NeuronSums& sums, const CpuSums& of_cpu, const float* bias, int n_tokens, int64_t n_cols,
              float* out, cudaStream_t stream);

/// Arrays that the device writes to host memory together. After the last of them has arrived, the device
/// stores a number in host memory, by which the host recognizes that all arrays can be read.
struct HandOver {
  struct Part {
    const void* from = nullptr;  // in device memory; `from` and `to` are 16-byte aligned
    void* to = nullptr;          // host memory that the device writes
    int64_t n_words = 0;         // of 4 bytes
  };
  static constexpr int kMaxParts = 4;
  Part parts[kMaxParts];
  static constexpr size_t kStateWords = 2;
  // [2] in device memory, initially 0: number of thread blocks done, number of hand-overs done
  uint32_t* state = nullptr;
  uint32_t* number = nullptr;  // host memory: number of hand-overs done, stored after all arrays
};
void hand_over(const HandOver& what, cudaStream_t stream);

/// Prepares the CPU's share of a layer: applies `changes` to split.resident and device_row unless `changes`
/// is null, splits the set, and hands over the arrays of `rest` to the host. split.cold and split.any must be
/// in host memory; the host may read them when *rest.number has arrived. For few tokens, all of this is one
/// kernel.
void part_and_hand_over(const SplitSet& split, const RowChanges* changes, int32_t* device_row,
                        const HandOver& rest, cudaStream_t stream);

}  // namespace hearth::cuda
