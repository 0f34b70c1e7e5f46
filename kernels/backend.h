// Backend: arithmetic on arrays in the memory of one device. A backend knows nothing about layers, requests
// or the placement of neurons.
//
// The engine's forward pass calls Backend. CpuBackend (kernels/cpu) and the CUDA backend (kernels/cuda)
// implement it. HybridFfn (kernels/hybrid_ffn.h) computes layers whose neurons a device and the CPU share.
// kernels/compute_device.h declares the functions that only a device other than the CPU needs.
//
// Float pointers and matrices point to the backend's memory (from allocate() and resident()). Spans of
// integers and the arrays of KvPlaces are in host memory. All tensors are row-major, and their last dimension
// is contiguous. Only the engine thread calls a backend, one call at a time. A call may return before its
// work is done. Later calls see its results, but host code sees them only after finish(). reserve() allocates
// the scratch memory of all later calls.
//
// Determinism: every output element depends only on its own inputs, never on what else is in the batch, how a
// prompt was cut into chunks or how many threads run. The same inputs give the same bits. Tests check this.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <stdexcept>
#include <string>

#include "kernels/experts.h"
#include "kernels/kv_layout.h"
#include "kernels/matrix.h"
#include "kernels/memory.h"
#include "kernels/neurons.h"
#include "kernels/recurrent.h"

namespace hearth {

/// One product of a matmul call: out [n_tokens, weight.n_rows] = x * weight^T + bias, where rows of out are
/// out_stride floats apart. If `rows` lists n rows, only those are computed: out is [n_tokens, n], and column
/// i is the product with weight row rows[i]. The bits are the same as without a list.
struct Product {
  Matrix weight;
  const float* bias = nullptr;  // [weight.n_rows], by row number even if rows are listed; or null
  float* out = nullptr;         // [n_tokens, n_rows or n]
  int64_t out_stride = 0;       // floats from one row of out to the next; at least the row's length
  bool accumulate = false;      // true: out += ... (the residual stream)
  /// The rows to compute: numbers in [0, weight.n_rows), in any order (ascending order reads fastest). If
  /// data() is null, all rows are computed. An empty list must have a data() that is not null.
  std::span<const int32_t> rows = {};
};

/// One product per head: out[t, h] = weight_h * x[t, h]. Each head has its own weights and its own part of x.
/// The part of token t for head h begins at x + t * x_stride + h * x_head_stride, and its result at out + t *
/// out_stride + h * out_head_stride.
struct HeadProducts {
  Matrix weight;           // head 0's weights, [n_rows, n_cols]
  int64_t rows_apart = 0;  // rows from the first row of one head to the first row of the next; >= n_rows
  int n_heads = 0;
  const float* x = nullptr;
  int64_t x_stride = 0, x_head_stride = 0;
  float* out = nullptr;
  int64_t out_stride = 0, out_head_stride = 0;
};

enum class RopeKind : uint8_t {
  kNone,
  kInterleaved,  // pairs (2i, 2i+1): GGUF "llama"
  kHalves,       // pairs (i, i + n_rot/2): GGUF "qwen2", "qwen3" (NeoX)
};

/// The rotary position embedding (RoPE) of queries and keys. The angle of dimension pair i is position *
/// inv_freq[i]. inv_freq and magnitude already include any scaling (linear, llama3, yarn).
/// engine/forward/rope.h computes both once.
struct Rope {
  RopeKind kind = RopeKind::kNone;
  int n_rot = 0;                    // number of leading dimensions of a head that rotate; even, <= head_dim
  const float* inv_freq = nullptr;  // [n_rot / 2]
  float magnitude = 1.0f;           // yarn's attention factor; multiplies cos and sin
};

enum class Activation : uint8_t {
  kSilu,           // x / (1 + e^-x)
  kGelu,           // the tanh approximation (Hendrycks, Gimpel 2016)
  kGeluErf,        // x times the normal distribution's Phi(x)
  kRelu,           // x if x > threshold, else 0 (FATReLU, Song et al. 2024, if the threshold is above 0)
  kRelu2,          // relu(x)^2
  kDRelu,          // relu(gate) * relu(up) (dReLU, Song et al. 2024)
  kSwigluOai,      // gpt-oss: g / (1 + e^(-1.702 g)) * (u + 1), g = min(gate, 7), u = up clamped to [-7, 7]
  kSigmoid,        // 1 / (1 + e^-x): the gate of attention's output; no FFN has it
  kIdentity,       // x: the gates of short convolutions; no FFN has it
  kSoftplus,       // ln(1 + e^x): the same
  kSwigluClamped,  // min(silu(gate), limit) * (up clamped to [-limit, limit])
  kXielu,          // see Xielu
};

/// The numbers of the activation xIELU (Huang, Schlag 2024, arXiv 2411.13010): alpha_p x^2 + beta x for x >
/// 0, and alpha_n (e^min(x, eps) - 1 - x) + beta x for all other x. REQUIRES: eps < 0.
struct Xielu {
  float alpha_p = 0.0f, alpha_n = 0.0f, beta = 0.0f, eps = -1e-6f;

  bool operator==(const Xielu&) const = default;
};

/// The operation between an FFN's matrices: hidden = act(gate) * up, or act(up) if the FFN has no gate.
struct FfnActivation {
  Activation kind = Activation::kSilu;
  float threshold = 0.0f;  // for kRelu: finite and at least 0; for all other kinds: 0
  float limit = 0.0f;      // for kSwigluClamped: above 0; for all other kinds: 0
  Xielu xielu = {};        // for kXielu

  bool operator==(const FfnActivation&) const = default;
  /// Whether the activation can be exactly 0. Neurons whose activation is zero need not be computed.
  constexpr bool has_zeros() const {
    return kind == Activation::kRelu || kind == Activation::kRelu2 || kind == Activation::kDRelu;
  }
};

/// One layer's FFN, with one row per neuron in every matrix. The pointers point to memory of the device that
/// computes the FFN.
struct FfnNeurons {
  Matrix gate;                       // [d_ff, d_model]; the only input matrix if the FFN has no gate
  Matrix up;                         // [d_ff, d_model]; null without a gate
  const float* gate_bias = nullptr;  // [d_ff] or null
  const float* up_bias = nullptr;
  DownColumns down;
  FfnActivation activation{Activation::kRelu};
  /// [d_ff] Euclidean norms of the down columns, for dropping small contributions; null if none are dropped.
  const float* down_sizes = nullptr;
};

/// The places of a step's tokens in the KV cache. Token t of the step is at position positions[t] of its
/// sequence. The sequence's block table is `table` = block_tables + table_of[t] * max_blocks, and position p
/// is in KV block table[p / block_tokens]. If a window hides a KV block from all tokens of the step, its
/// entry in the table is not read.
struct KvPlaces {
  int n_tokens = 0;
  const int32_t* positions = nullptr;     // [n_tokens]
  const int32_t* table_of = nullptr;      // [n_tokens]
  const int32_t* block_tables = nullptr;  // [n_tables, max_blocks]
  int max_blocks = 0;
  /// [n_tokens]: token t sees positions 0 to n_seen[t] - 1 of its sequence. If null, each token sees
  /// positions 0 to its own. n_seen must not decrease from one token of a sequence to the next.
  const int32_t* n_seen = nullptr;
  int n_tables = 0;  // rows of block_tables, including unused ones; the CPU ignores this number

  /// Returns the number of positions up to the last one that token t would see without a window.
  int n_keys(int t) const { return n_seen != nullptr ? n_seen[t] : positions[t] + 1; }
};

/// Queries, keys and values of a layer for one step. q is [n_tokens, n_heads, head_dim], with rows q_stride
/// floats apart. k and v are [n_tokens, n_kv_heads, head_dim], with rows kv_stride floats apart.
struct QueriesKeysValues {
  float* q = nullptr;
  int64_t q_stride = 0;
  int n_heads = 0;
  float* k = nullptr;
  const float* v = nullptr;
  int64_t kv_stride = 0;
};

/// The parameters that turn the scores of a query into attention weights.
struct AttentionScores {
  float scale = 1.0f;  // factor of q k^T
  int window = 0;      // p sees p - window + 1 to p, up to p + window - 1 if tokens look ahead; 0: no window
  float soft_cap = 0.0f;         // a score s becomes cap * tanh(s / cap); 0: no cap
  const float* sinks = nullptr;  // [n_heads], backend memory: for each head, an extra logit in the softmax,
                                 // which has no value row; null: no extra logits
  /// [positions / growth_span], backend memory: the scores of a query at position p are multiplied by
  /// growth[(p + growth_from) / growth_span]. Null: no such factor.
  const float* growth = nullptr;
  int growth_span = 1;
  int growth_from = 0;
  bool sectioned = false;  // the window is a section: position p sees positions p / window * window to p
  /// [n_heads], memory of the CPU, whose backend alone computes them: a score loses slopes[head] times the
  /// distance of the two positions, after the cap (ALiBi, Press et al. 2022). Null: distances do not count.
  const float* slopes = nullptr;

  /// Returns the first position that the token at position n_keys - 1 sees.
  constexpr int first_seen(int n_keys) const {
    if (window == 0 || n_keys <= window) return 0;
    return sectioned ? (n_keys - 1) / window * window : n_keys - window;
  }
};

/// Rows that are added up with weights of their own for each row, in several sums: out_s[r] = x_s[r] + the
/// sum over j of weights[r, s * n_added + j] * added_j[r]. x_s is x + s * stride, and so are out_s and
/// added_j.
struct MixedRows {
  const float* x = nullptr;        // [n_sums] arrays [n_rows, n_cols]
  const float* added = nullptr;    // [n_added] arrays [n_rows, n_cols]
  const float* weights = nullptr;  // [n_rows, n_sums * n_added]
  float* out = nullptr;            // [n_sums] arrays [n_rows, n_cols]; none of the inputs
  int n_sums = 0, n_added = 0;
  int64_t stride = 0;  // floats from one array to the next
  int64_t n_rows = 0, n_cols = 0;
};

/// Upper bounds for all later steps, from which reserve() computes the sizes of scratch memory.
struct StepBounds {
  int max_tokens = 1;
  int64_t max_cols = 0;  // columns of a row: the largest of d_model, d_ff and n_heads * head_dim
  int n_heads = 1;
  int max_context = 1;    // positions of a sequence
  int64_t d_model = 0;    // 0: the same as max_cols
  int head_dim = 0;       // 0: max_cols / n_heads
  int64_t head_cols = 0;  // maximum number of columns of HeadProducts, at most max_cols; 0: not used
  int n_sets = 0;         // sets of neurons in use at once: the number of make_set() calls allowed
  // The maximum number of floats of one to_host() call. 0: the first call allocates the memory.
  int64_t max_outputs = 0;
  // The following fields are for layers of experts; they are 0 in models without such layers.
  int n_experts = 0;          // maximum number of experts of a layer
  int n_experts_used = 0;     // maximum number of experts of a token
  int64_t expert_cols = 0;    // the largest d_expert
  int max_expert_tokens = 0;  // maximum number of tokens of a step whose experts a device computes
                              // (HybridExperts); 0: the device holds no experts
  // The following fields are for a device that shares the neurons of layers with the CPU (HybridFfn). Other
  // backends ignore them.
  bool shares = false;  // whether there are layers with shared neurons
  // Whether some of these layers have all gates on the device (HybridLayer::all_gates).
  bool shares_gates = true;
  size_t stream_bytes = 0;  // bytes of each of two buffers through which a device streams cold neurons, or
                            // 0. A layer is not streamed if 64 of its neurons do not fit
  /// In a long step, a device may compute layers that are stored in host memory
  /// (ComputeDevice::streams_layers). This is the number of bytes of such a layer's keys, which the device
  /// copies. The values take equally many bytes. 0: the device computes no such layers.
  size_t stream_kv_bytes = 0;
  // The following fields are for a device that uses a library to multiply prompt tokens
  // (ComputeDevice::set_prompt_rows).
  int64_t library_rows = 0;  // rows of the largest matrix that the library multiplies; 0: no library
  // Whether the library also gets quantized matrices, which are dequantized first.
  bool library_decodes = false;
  RecurrentShape recurrent = {};  // of the recurrent layers; false: there are none
};

class Backend : public Memory {
 public:
  /// The name of the computing device for the log, for example "CPU avx512-vnni, 2 threads".
  virtual std::string description() const = 0;

  /// Called once, before all other calls, by the thread that will make them. The backend may pin this thread
  /// and its own threads to processors. Threads that the pinned thread starts afterward inherit its
  /// processor.
  virtual void bind_thread() {}

  /// Allocates scratch for steps within these bounds. Called only at load, before any arithmetic. A second
  /// call prepares for another forward pass, and invalidates the sets that make_set() has made.
  virtual void reserve(const StepBounds& bounds) = 0;

  /// Announces that calls will follow as soon as a device has computed their inputs. Until then the backend's
  /// threads stay awake (ThreadPool::expect_work). Cheap.
  virtual void expect_work() {}

  /// Waits until all calls made so far are done. Afterward NeuronCounts and ExpertCounts are complete, and
  /// the caller may reuse the host memory that it passed to those calls.
  virtual void finish() {}

  /// Copies n floats at x to host memory, and returns the copy, which is valid until the next step. Waits
  /// like finish().
  virtual const float* to_host(const float* x, size_t /*n*/) { return x; }

  /// out [n] = n floats of host memory, which the caller may reuse when the call returns.
  virtual void from_host(const float* x, size_t n, float* out) { std::copy_n(x, n, out); }

  /// Two arrays of floats in host memory.
  struct HandedOver {
    const float* first = nullptr;
    const float* second = nullptr;
  };
  /// Enqueues a copy of two arrays to host memory, in the middle of a step. The copy begins after the calls
  /// made so far. Returns the addresses of the copies. They are complete when wait_for_hand_over() returns,
  /// and valid until the next hand_over(). Later backend calls run while the host works on the copies.
  virtual HandedOver hand_over(std::span<const float> first, std::span<const float> second) {
    return {first.data(), second.data()};
  }

  /// Starts all calls made so far, but waits only until the arrays of the last hand_over() have arrived.
  virtual void wait_for_hand_over() {}

  /// Adds n floats of host memory to out [n]. The caller may reuse that memory when the call returns.
  /// REQUIRES: wait_for_hand_over() was called since the previous call of add_from_host().
  virtual void add_from_host(const float* x, int64_t n, float* out) { add(x, n, out); }

  /// Makes a set of at most StepBounds::max_tokens tokens and max_cols neurons, which select_neurons() can
  /// fill. The set exists until reserve() is called again. Called at load, after reserve(). Throws
  /// std::logic_error (a sentence) if StepBounds::n_sets sets exist already.
  virtual NeuronSetId make_set() = 0;

  /// Returns the contents of the set in host memory, which stay valid until the set is filled again. Waits
  /// like finish().
  virtual const NeuronSet& to_host(NeuronSetId set) = 0;

  /// out [n_tokens, table.n_cols] = dequantized rows of table. REQUIRES: 0 <= tokens[i] < table.n_rows.
  virtual void embed(const Matrix& table, std::span<const int32_t> tokens, float* out) = 0;

  /// out[i] += x[i] for n floats.
  virtual void add(const float* x, int64_t n, float* out) = 0;

  /// out[i] = x[i] for n floats.
  virtual void copy(const float* x, int64_t n, float* out) = 0;

  /// out[r * out_stride + c] = x[r * stride + c] for n_rows rows of n_cols floats.
  virtual void copy_rows(const float* x, int64_t stride, int64_t n_rows, int64_t n_cols, float* out,
                         int64_t out_stride) = 0;

  /// out[i] = 0 for n floats.
  virtual void zero(int64_t n, float* out) = 0;

  /// out[i] *= factor for n floats.
  virtual void scale(float factor, int64_t n, float* out) = 0;

  /// out[r, c] *= factors[r] for n_rows rows of n_cols floats.
  virtual void scale_rows(const float* factors, int64_t n_rows, int64_t n_cols, float* out) = 0;

  /// out[r, c] *= factors[c] for n_rows rows of n_cols floats.
  virtual void scale_columns(const float* factors, int64_t n_rows, int64_t n_cols, float* out) = 0;

  /// See MixedRows. The sum begins with x and is a chain of fused multiply-adds in the order of j.
  virtual void mix_rows(const MixedRows& call) = 0;

  /// out[i] = cap * tanh(out[i] / cap) for n floats. REQUIRES: cap > 0.
  virtual void soft_cap(float cap, int64_t n, float* out) = 0;

  /// out[r] = x[r] / sqrt(mean(x[r]^2) + eps) * weight[r mod n_weights], for n_rows rows of n_cols. weight
  /// [n_weights, n_cols]. out may be x.
  virtual void rms_norm(const float* x, const float* weight, float eps, int64_t n_rows, int64_t n_cols,
                        float* out, int64_t n_weights = 1) = 0;

  /// out[r] = (x[r] - mean(x[r])) / sqrt(variance(x[r]) + eps) * weight[r mod n_weights] + bias[r mod
  /// n_weights]. bias is [n_weights, n_cols], or null if there is none. out may be x.
  virtual void layer_norm(const float* x, const float* weight, const float* bias, float eps, int64_t n_rows,
                          int64_t n_cols, float* out, int64_t n_weights = 1) = 0;

  /// x[r] *= sqrt(mean(to[r]^2) / max(mean(x[r]^2), least)), for n_rows rows of n_cols.
  virtual void match_rows(const float* to, float least, int64_t n_rows, int64_t n_cols, float* x) = 0;

  /// x[r, c] = max(x[r, c] - mean(x[r]) - n_deviations * sqrt(variance(x[r])), 0), for n_rows rows of n_cols.
  /// A NaN stays a NaN.
  virtual void cut_rows(float n_deviations, int64_t n_rows, int64_t n_cols, float* x) = 0;

  /// All products share x [n_tokens, n_cols] (contiguous), which is quantized at most once. Every weight has
  /// n_cols columns.
  virtual void matmul(const float* x, int n_tokens, std::span<const Product> products) = 0;

  /// Computes the products of all heads for n_tokens tokens. The results have the bits that matmul() would
  /// give for each head, if the rows of x for the head were contiguous.
  virtual void multiply_heads(const HeadProducts& products, int n_tokens) = 0;

  /// Rotates x [n_tokens, n_heads, head_dim] in place; row t is x + t * stride.
  virtual void rope(float* x, int64_t stride, int n_heads, int head_dim, std::span<const int32_t> positions,
                    const Rope& rope) = 0;

  /// Writes k and v [n_tokens, n_kv_heads * head_dim] (row t at k + t * stride) to the KV cache at `places`,
  /// as numbers of shape.type. kv_layout.h defines how they are rounded.
  virtual void kv_append(const float* k, const float* v, int64_t stride, const KvPlaces& places,
                         const KvShape& shape, KvLayer layer) = 0;

  /// Rotates q in place, and writes v and the rotated k to the KV cache. This is rope() of q and of k, then
  /// kv_append(), in one launch if the backend supports that. Afterward the array at k may be rotated or
  /// unchanged.
  virtual void rope_append(const QueriesKeysValues& rows, const Rope& turning, const KvPlaces& places,
                           const KvShape& shape, KvLayer layer) {
    const std::span<const int32_t> positions(places.positions, static_cast<size_t>(places.n_tokens));
    rope(rows.q, rows.q_stride, rows.n_heads, shape.head_dim, positions, turning);
    rope(rows.k, rows.kv_stride, shape.n_kv_heads, shape.head_dim, positions, turning);
    kv_append(rows.k, rows.v, rows.kv_stride, places, shape, layer);
  }

  /// out [n_tokens, n_heads, head_dim] (contiguous) = softmax(q k^T * scale) v. Row t of q begins at q + t *
  /// stride. Query head h uses key/value head h / (n_heads / n_kv_heads). A token's softmax covers the
  /// positions of its own sequence that the token sees (KvPlaces). `scores` may limit these positions to a
  /// window, cap the scores, scale queries by their position, and add a sink to each head's softmax.
  /// REQUIRES: the step's own keys have been appended; on a device, places.n_seen comes without a window.
  /// Online softmax in a fixed order of keys (Milakov, Gimelshein 2018).
  virtual void attention(const float* q, int64_t stride, int n_heads, const AttentionScores& scores,
                         const KvPlaces& places, const KvShape& shape, KvLayer layer, float* out) = 0;

  /// out[i] = act(gate[i]) * up[i] for n floats (kDRelu: act(gate[i]) * act(up[i]); kSwigluOai and
  /// kSwigluClamped: see Activation). If up is null, out[i] = act(gate[i]). out may be gate or up. A NaN
  /// stays a NaN, even if the activation is a relu. REQUIRES: up is not null for kDRelu and kSwigluOai.
  virtual void gated_activation(FfnActivation act, const float* gate, const float* up, int64_t n,
                                float* out) = 0;

  /// Fills `set`, which this backend made, with the neurons whose score is not below `at_least`. The score is
  /// values[t * n_neurons + j], or |values[t * n_neurons + j]| * sizes[j] if `sizes` [n_neurons] is given. A
  /// NaN is not below `at_least`, so its neuron is selected, and the NaNs of a broken model reach the output.
  virtual void select_neurons(const float* values, const float* sizes, int n_tokens, int64_t n_neurons,
                              float at_least, NeuronSetId set) = 0;

  /// Adds the FFN of x [n_tokens, d_model] to out [n_tokens, d_model]. For each token, computes only the
  /// neurons that `set` contains for the token. gates [n_tokens, d_ff] has the products with the gate rows,
  /// including the bias. If gates is null, this call computes the gates of the set's neurons first. An up row
  /// is read only if act(gate) != 0, and a down row only if the neuron's value is not zero. The order of sums
  /// over neurons depends only on the neurons' numbers.
  virtual void ffn_neurons(const FfnNeurons& ffn, const float* x, int n_tokens, NeuronSetId set,
                           const float* gates, float* out, NeuronCounts& counts) = 0;

  /// Adds the down projection of values [n_tokens, d_ff], for each token's neurons in `set`, to out
  /// [n_tokens, d_model]. The sums and their order are the same as in ffn_neurons().
  virtual void down_neurons(const DownColumns& down, const float* values, int n_tokens, NeuronSetId set,
                            float* out, NeuronCounts& counts) = 0;

  /// Chooses experts for n_tokens tokens from their router's logits [n_tokens, router.n_experts], as Router
  /// describes. The result is valid until the next call of route(). route() and experts() throw
  /// std::logic_error with a sentence if the backend has no experts.
  virtual ExpertChoice route(const float* /*logits*/, int /*n_tokens*/, const Router& /*router*/) {
    throw std::logic_error("This backend cannot compute layers of experts.");
  }

  /// Adds to out[t] the sum over j of weight_j * FFN_{expert j}(x[t]), for the experts j that `choice` lists
  /// for token t, in the order of that list. x and out are [choice.n_tokens, d_model] and do not overlap.
  /// `experts` has all experts of a layer, by number, all of one shape. Only the weights of chosen experts
  /// are read, once per call. If experts have down columns, only the rows of neurons whose value is not zero
  /// are read (see Expert). REQUIRES: for kDRelu and kSwigluOai, experts have gates. Experts have down
  /// columns only if the activation has zeros.
  virtual void experts(std::span<const Expert> /*experts*/, FfnActivation /*activation*/, const float* /*x*/,
                       const ExpertChoice& /*choice*/, float* /*out*/, ExpertCounts& /*counts*/) {
    throw std::logic_error("This backend cannot compute layers of experts.");
  }

  /// Returns the operations of recurrent layers, which have the backend's lifetime, or null if this backend
  /// has none. A model with recurrent layers then cannot run on it.
  virtual RecurrentOps* recurrent() { return nullptr; }

  /// Copies row rows[i] of x to row i of out. Rows have n_cols floats.
  virtual void gather_rows(const float* x, int64_t n_cols, std::span<const int32_t> rows, float* out) = 0;
};

}  // namespace hearth
