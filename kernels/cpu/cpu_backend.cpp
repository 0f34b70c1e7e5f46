// Implements CpuBackend: cuts each operation into pieces for the threads.
#include "kernels/cpu/cpu_backend.h"

#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cassert>
#include <cstring>
#include <limits>
#include <new>
#include <sstream>
#include <stdexcept>

#include "kernels/cpu/isa/activation_row.h"
#include "kernels/cpu/threads/topology.h"
#include "kernels/quant/dequantize.h"

namespace hearth {
namespace {

// The fewest floats in a piece of an elementwise operation: one core takes 1 to 2 microseconds for these 16
// KiB, about as long as it takes to share an operation among threads. Smaller operations stay on the calling
// thread, whose cache already has their operands.
constexpr int64_t kPieceFloats = 4096;

Isa checked(Isa isa) {
  const std::vector<Isa> supported = supported_isas();
  if (std::ranges::find(supported, isa) != supported.end()) return isa;
  throw std::invalid_argument("The instruction set " + std::string(isa_name(isa)) +
                              " cannot be used: " + isa_refusal(isa) + ".");
}

int checked(int n_threads) {
  if (n_threads >= 1) return n_threads;
  throw std::invalid_argument("The CPU backend was given " + std::to_string(n_threads) +
                              " threads; it needs at least 1.");
}

/// Returns the number of the KV block that holds token t's key and value.
int64_t block_of(const KvPlaces& places, const KvShape& shape, int t) {
  const int64_t table = int64_t{places.table_of[t]} * places.max_blocks;
  return places.block_tables[table + places.positions[t] / shape.block_tokens];
}

/// Writes n numbers to out, `apart` elements apart.
template <class Number>
void scatter(const Number* numbers, int64_t n, int64_t apart, Number* out) {
  for (int64_t i = 0; i < n; ++i) out[i * apart] = numbers[i];
}

/// Writes the key and value of one position, for all heads, at position `within` of a KV block. `rounded` is
/// scratch memory for the position's keys of all heads, as halves.
void append_halves(const VectorKernels& kernels, const float* k, const float* v, const KvShape& shape,
                   KvLayer layer, int64_t block, int64_t within, uint16_t* rounded) {
  const int64_t width = int64_t{shape.n_kv_heads} * shape.head_dim;
  const int64_t start = block * shape.block_numbers();
  kernels.to_half(k, width, rounded);
  // A key is a column of its KV block's array [n_kv_heads * head_dim, block_tokens].
  scatter(rounded, width, shape.block_tokens, static_cast<uint16_t*>(layer.k) + start + within);
  // A value is a row of each head's array [block_tokens, head_dim].
  auto* values = static_cast<uint16_t*>(layer.v) + start + within * shape.head_dim;
  for (int64_t h = 0; h < shape.n_kv_heads; ++h) {
    kernels.to_half(v + h * shape.head_dim, shape.head_dim, values + h * shape.block_tokens * shape.head_dim);
  }
}

/// Like append_halves(), for KvType::kQ8. `rounded` is large enough, because 8-bit integers and their scales
/// take less memory than halves.
void append_q8(const VectorKernels& kernels, const float* k, const float* v, const KvShape& shape,
               KvLayer layer, int64_t block, int64_t within, uint16_t* rounded) {
  const int64_t width = int64_t{shape.n_kv_heads} * shape.head_dim;
  const int64_t groups = shape.head_dim / kKvGroup;  // per head
  auto* const keys = static_cast<int8_t*>(layer.k) + block * shape.block_bytes();
  auto* const values = static_cast<int8_t*>(layer.v) + block * shape.block_bytes();
  auto* const key_scales = reinterpret_cast<uint16_t*>(keys + shape.block_numbers());
  auto* const value_scales = reinterpret_cast<uint16_t*>(values + shape.block_numbers());
  auto* const numbers = reinterpret_cast<int8_t*>(rounded + width / kKvGroup);
  kernels.to_q8(k, width, numbers, rounded);
  scatter(numbers, width, shape.block_tokens, keys + within);
  scatter(rounded, width / kKvGroup, shape.block_tokens, key_scales + within);
  for (int64_t h = 0; h < shape.n_kv_heads; ++h) {
    const int64_t row = h * shape.block_tokens + within;
    kernels.to_q8(v + h * shape.head_dim, shape.head_dim, values + row * shape.head_dim,
                  value_scales + row * groups);
  }
}

}  // namespace

CpuBackend::CpuBackend(int n_threads, Isa isa, ActivationBits bits, double quota)
    : isa_(checked(isa)),
      bits_(bits),
      matmul_(matmul_kernels(isa, bits)),
      vector_(vector_kernels(isa)),
      pool_(checked(n_threads), quota),
      products_(pool_, matmul_, bits, l1_is_large(fast_cpus(allowed_cpus()))),
      attention_(pool_, vector_),
      sparse_(pool_, matmul_, vector_, down_kernels(isa), down_sums_kernels(isa)),
      router_(pool_, vector_),
      experts_(pool_, matmul_, vector_, down_kernels(isa), bits, products_),
      recurrent_(pool_, vector_),
      indexer_(pool_, vector_, attention_) {}

std::string CpuBackend::description() const {
  const int n = pool_.n_threads();
  std::string text = "CPU " + std::string(isa_name(isa_)) + ", " + std::to_string(n);
  text += n == 1 ? " thread" : " threads";
  if (bits_ == ActivationBits::k8) text += ", 8-bit activations";
  if (!pool_.exceeds_quota()) return text;
  std::ostringstream quota;
  quota << pool_.quota();
  return text + " within the cgroup's quota of " + quota.str() + " CPUs";
}

Buffer CpuBackend::allocate(size_t bytes) {
  if (bytes == 0) return {};
  void* data = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (data == MAP_FAILED) throw std::bad_alloc();
  // Request large pages, which made attention over 4096 positions 5 % faster, because the KV blocks of a head
  // are many pages apart. The system may ignore this request.
  madvise(data, bytes, MADV_HUGEPAGE);
  return {data, bytes, [](void* mapped, size_t size) { munmap(mapped, size); }};
}

void CpuBackend::reserve(const StepBounds& bounds) {
  bounds_ = bounds;
  sets_.clear();
  const int max_tokens = bounds.max_tokens;
  const int64_t max_cols = bounds.max_cols;
  const int max_head_dim =
      bounds.head_dim > 0 ? bounds.head_dim : static_cast<int>(max_cols / bounds.n_heads);
  // Columns are rounded up to whole weight blocks, so that a longer row never takes less memory than a
  // shorter one.
  constexpr int64_t kLargestBlock = 256;
  const int64_t whole_blocks = (max_cols + kLargestBlock - 1) / kLargestBlock * kLargestBlock;
  const size_t row_bytes = activation_row_bytes(whole_blocks, bits_);
  const auto n_heads = static_cast<size_t>(bounds.head_cols > 0 ? bounds.n_heads : 0);
  const int64_t head_blocks = (bounds.head_cols + kLargestBlock - 1) / kLargestBlock * kLargestBlock;
  const size_t of_heads = n_heads * activation_row_bytes(head_blocks, bits_);
  quantized_ = allocate(static_cast<size_t>(max_tokens) * std::max(row_bytes, of_heads));
  head_rows_ = allocate(static_cast<size_t>(max_tokens) * n_heads * static_cast<size_t>(bounds.head_cols) *
                        sizeof(float));
  head_jobs_.resize(n_heads);
  sparse_.reserve(max_tokens, max_cols, *this);
  attention_.reserve(max_tokens, bounds.n_heads, max_head_dim, bounds.max_context);
  rope_tables_.reserve(max_tokens, max_head_dim);
  router_.reserve(max_tokens, bounds.n_experts, bounds.n_experts_used);
  experts_.reserve(bounds, *this);
  recurrent_.reserve(bounds.recurrent);
  if (integer_sums_) {
    const int64_t d_model = bounds.d_model > 0 ? bounds.d_model : max_cols;
    sums_ = allocate(static_cast<size_t>(max_tokens) * static_cast<size_t>(d_model) * sizeof(int64_t));
    poison_.resize(static_cast<size_t>(max_tokens));
  }
  halves_.resize(static_cast<size_t>(pool_.n_threads()));
  for (std::vector<uint16_t>& row : halves_) row.resize(static_cast<size_t>(max_cols));
}

int64_t CpuBackend::row_grain(int64_t row_floats) {
  return std::max<int64_t>(1, kPieceFloats / std::max<int64_t>(1, row_floats));
}

void CpuBackend::embed(const Matrix& table, std::span<const int32_t> tokens, float* out) {
  const int64_t n_tokens = static_cast<int64_t>(tokens.size());
  pool_.for_each_piece(n_tokens, row_grain(table.n_cols), [&](int64_t begin, int64_t end, int) {
    for (int64_t i = begin; i < end; ++i) {
      const int32_t token = tokens[static_cast<size_t>(i)];
      dequantize_row(table.dtype, table.row(token), table.n_cols, out + i * table.n_cols);
    }
  });
}

void CpuBackend::add(const float* x, int64_t n, float* out) {
  pool_.for_each_piece(n, kPieceFloats, [&](int64_t begin, int64_t end, int) {
    for (int64_t i = begin; i < end; ++i) out[i] += x[i];
  });
}

void CpuBackend::copy(const float* x, int64_t n, float* out) {
  pool_.for_each_piece(n, kPieceFloats,
                       [&](int64_t begin, int64_t end, int) { std::copy(x + begin, x + end, out + begin); });
}

void CpuBackend::copy_rows(const float* x, int64_t stride, int64_t n_rows, int64_t n_cols, float* out,
                           int64_t out_stride) {
  pool_.for_each_piece(n_rows, row_grain(n_cols), [&](int64_t begin, int64_t end, int) {
    for (int64_t r = begin; r < end; ++r) std::copy_n(x + r * stride, n_cols, out + r * out_stride);
  });
}

void CpuBackend::zero(int64_t n, float* out) {
  pool_.for_each_piece(n, kPieceFloats,
                       [&](int64_t begin, int64_t end, int) { std::fill(out + begin, out + end, 0.0f); });
}

void CpuBackend::scale(float factor, int64_t n, float* out) {
  pool_.for_each_piece(n, kPieceFloats, [&](int64_t begin, int64_t end, int) {
    for (int64_t i = begin; i < end; ++i) out[i] *= factor;
  });
}

void CpuBackend::scale_rows(const float* factors, int64_t n_rows, int64_t n_cols, float* out) {
  pool_.for_each_piece(n_rows, row_grain(n_cols), [&](int64_t begin, int64_t end, int) {
    for (int64_t i = begin * n_cols; i < end * n_cols; ++i) out[i] *= factors[i / n_cols];
  });
}

void CpuBackend::scale_columns(const float* factors, int64_t n_rows, int64_t n_cols, float* out) {
  pool_.for_each_piece(n_rows, row_grain(n_cols), [&](int64_t begin, int64_t end, int) {
    for (int64_t r = begin; r < end; ++r) {
      for (int64_t c = 0; c < n_cols; ++c) out[r * n_cols + c] *= factors[c];
    }
  });
}

void CpuBackend::mix_rows(const MixedRows& call) {
  const int64_t grain = row_grain(call.n_cols * (1 + call.n_added));
  pool_.for_each_piece(call.n_rows * call.n_sums, grain, [&](int64_t begin, int64_t end, int) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t row = i / call.n_sums, sum = i % call.n_sums, at = row * call.n_cols;
      vector_.mix_row(call.x + sum * call.stride + at, call.added + at, call.stride,
                      call.weights + i * call.n_added, call.n_added, call.n_cols,
                      call.out + sum * call.stride + at);
    }
  });
}

void CpuBackend::soft_cap(float cap, int64_t n, float* out) {
  pool_.for_each_piece(n, kPieceFloats, [&](int64_t begin, int64_t end, int) {
    vector_.soft_cap(cap, end - begin, out + begin);
  });
}

void CpuBackend::rms_norm(const float* x, const float* weight, float eps, int64_t n_rows, int64_t n_cols,
                          float* out, int64_t n_weights) {
  pool_.for_each_piece(n_rows, row_grain(n_cols), [&](int64_t begin, int64_t end, int) {
    for (int64_t r = begin; r < end; ++r) {
      vector_.rms_norm(x + r * n_cols, weight + r % n_weights * n_cols, eps, n_cols, out + r * n_cols);
    }
  });
}

void CpuBackend::layer_norm(const float* x, const float* weight, const float* bias, float eps, int64_t n_rows,
                            int64_t n_cols, float* out, int64_t n_weights) {
  pool_.for_each_piece(n_rows, row_grain(n_cols), [&](int64_t begin, int64_t end, int) {
    for (int64_t r = begin; r < end; ++r) {
      const int64_t at = r % n_weights * n_cols;
      vector_.layer_norm(x + r * n_cols, weight + at, bias == nullptr ? nullptr : bias + at, eps, n_cols,
                         out + r * n_cols);
    }
  });
}

void CpuBackend::match_rows(const float* to, float least, int64_t n_rows, int64_t n_cols, float* x) {
  pool_.for_each_piece(n_rows, row_grain(n_cols), [&](int64_t begin, int64_t end, int) {
    for (int64_t r = begin; r < end; ++r) vector_.match_row(to + r * n_cols, least, n_cols, x + r * n_cols);
  });
}

void CpuBackend::cut_rows(float n_deviations, int64_t n_rows, int64_t n_cols, float* x) {
  pool_.for_each_piece(n_rows, row_grain(n_cols), [&](int64_t begin, int64_t end, int) {
    for (int64_t r = begin; r < end; ++r) vector_.cut_row(n_deviations, n_cols, x + r * n_cols);
  });
}

void CpuBackend::rope(float* x, int64_t stride, int n_heads, int head_dim, std::span<const int32_t> positions,
                      const Rope& rope) {
  if (rope.kind == RopeKind::kNone || rope.n_rot == 0 || positions.empty()) return;
  const RopeTable& table = rope_tables_.table(rope_tables_.prepare(positions, rope, pool_));
  const int64_t n_tokens = static_cast<int64_t>(positions.size());
  pool_.for_each_piece(
      n_tokens, row_grain(int64_t{n_heads} * head_dim), [&](int64_t begin, int64_t end, int) {
        for (int64_t t = begin; t < end; ++t) {
          for (int64_t h = 0; h < n_heads; ++h) {
            vector_.rotate(rope.kind, table.row(t), rope.n_rot, x + t * stride + h * head_dim);
          }
        }
      });
}

void CpuBackend::kv_append(const float* k, const float* v, int64_t stride, const KvPlaces& places,
                           const KvShape& shape, KvLayer layer) {
  assert(shape.type != KvType::kQ8 || shape.head_dim % kKvGroup == 0);
  const int64_t grain = std::max<int64_t>(1, kPieceFloats / (int64_t{2} * shape.n_kv_heads * shape.head_dim));
  const auto append = shape.type == KvType::kQ8 ? append_q8 : append_halves;
  pool_.for_each_piece(places.n_tokens, grain, [&](int64_t begin, int64_t end, int thread) {
    uint16_t* const rounded = halves_[static_cast<size_t>(thread)].data();
    for (int64_t t = begin; t < end; ++t) {
      append(vector_, k + t * stride, v + t * stride, shape, layer,
             block_of(places, shape, static_cast<int>(t)), places.positions[t] % shape.block_tokens, rounded);
    }
  });
}

void CpuBackend::attention(const float* q, int64_t stride, int n_heads, const AttentionScores& scores,
                           const KvPlaces& places, const KvShape& shape, KvLayer layer, float* out) {
  attention_.run(q, stride, n_heads, scores, places, shape, layer, out);
}

void CpuBackend::gated_activation(FfnActivation act, const float* gate, const float* up, int64_t n,
                                  float* out) {
  // Pieces are whole vectors only for speed; any other split would give the same results.
  constexpr int64_t kRow = 64;
  pool_.for_each_piece((n + kRow - 1) / kRow, row_grain(kRow), [&](int64_t begin, int64_t end, int) {
    const int64_t first = begin * kRow;
    const float* ups = up == nullptr ? nullptr : up + first;
    vector_.gated_activation(act, gate + first, ups, std::min(n, end * kRow) - first, out + first);
  });
}

void CpuBackend::gather_rows(const float* x, int64_t n_cols, std::span<const int32_t> rows, float* out) {
  const int64_t n_rows = static_cast<int64_t>(rows.size());
  pool_.for_each_piece(n_rows, row_grain(n_cols), [&](int64_t begin, int64_t end, int) {
    for (int64_t i = begin; i < end; ++i) {
      std::memcpy(out + i * n_cols, x + rows[static_cast<size_t>(i)] * n_cols,
                  static_cast<size_t>(n_cols) * sizeof(float));
    }
  });
}

// ---- matrix products: activations are quantized once, then threads share all rows ------------------------

bool uses_quantized_activations(DType type) { return dtype_info(type).block_elems > 1; }

size_t activation_row_bytes(int64_t n_cols, ActivationBits bits) {
  return activation_row_size(n_cols, bits == ActivationBits::k15 ? 2 : 1);
}

const std::byte* CpuBackend::quantize(const float* x, int n_tokens, int64_t n_cols) {
  std::byte* rows = reinterpret_cast<std::byte*>(quantized_.floats());
  const size_t bytes = activation_row_bytes(n_cols, bits_);
  assert(static_cast<size_t>(n_tokens) * bytes <= quantized_.bytes());
  pool_.for_each_piece(n_tokens, row_grain(n_cols), [&](int64_t begin, int64_t end, int) {
    for (int64_t t = begin; t < end; ++t) {
      matmul_.quantize(x + t * n_cols, n_cols, rows + static_cast<size_t>(t) * bytes);
    }
  });
  return rows;
}

void CpuBackend::matmul(const float* x, int n_tokens, std::span<const Product> products) {
  if (n_tokens == 0 || products.empty()) return;
  const int64_t n_cols = products.front().weight.n_cols;
  const bool any_quantized = std::ranges::any_of(
      products, [](const Product& p) { return uses_quantized_activations(p.weight.dtype); });
  const std::byte* quantized = any_quantized ? quantize(x, n_tokens, n_cols) : nullptr;

  std::array<MatmulJob, 4> jobs;  // few calls have more products
  for (size_t first = 0; first < products.size(); first += jobs.size()) {
    const std::span<const Product> some =
        products.subspan(first, std::min(jobs.size(), products.size() - first));
    for (size_t i = 0; i < some.size(); ++i) {
      jobs[i] = {.product = some[i], .x = x, .quantized = quantized, .n_tokens = n_tokens};
    }
    products_.run({jobs.data(), some.size()});
  }
}

/// Each head is a job with its own rows: the input of head h and token t is packed into row h * n_tokens + t.
void CpuBackend::multiply_heads(const HeadProducts& products, int n_tokens) {
  const Matrix& weight = products.weight;
  const int64_t n_cols = weight.n_cols;
  const int64_t n_rows = int64_t{products.n_heads} * n_tokens;
  if (n_rows == 0) return;
  const bool quantizes = uses_quantized_activations(weight.dtype);
  const size_t bytes = activation_row_bytes(n_cols, bits_);
  std::byte* const quantized = reinterpret_cast<std::byte*>(quantized_.floats());
  float* const floats = head_rows_.floats();
  assert(static_cast<size_t>(products.n_heads) <= head_jobs_.size());
  assert(!quantizes || static_cast<size_t>(n_rows) * bytes <= quantized_.bytes());
  assert(quantizes || static_cast<size_t>(n_rows * n_cols) * sizeof(float) <= head_rows_.bytes());
  pool_.for_each_piece(n_rows, row_grain(n_cols), [&](int64_t begin, int64_t end, int) {
    for (int64_t row = begin; row < end; ++row) {
      const float* x =
          products.x + row % n_tokens * products.x_stride + row / n_tokens * products.x_head_stride;
      if (quantizes) {
        matmul_.quantize(x, n_cols, quantized + static_cast<size_t>(row) * bytes);
      } else {
        std::copy_n(x, n_cols, floats + row * n_cols);
      }
    }
  });
  for (int h = 0; h < products.n_heads; ++h) {
    const int64_t first = int64_t{h} * n_tokens;
    Matrix of_head = weight;
    of_head.data = weight.row(h * products.rows_apart);
    head_jobs_[static_cast<size_t>(h)] = {.product = {.weight = of_head,
                                                      .out = products.out + h * products.out_head_stride,
                                                      .out_stride = products.out_stride},
                                          .x = floats + first * n_cols,
                                          .quantized = quantized + static_cast<size_t>(first) * bytes,
                                          .n_tokens = n_tokens};
  }
  products_.run({head_jobs_.data(), static_cast<size_t>(products.n_heads)});
}

// ---- experts ---------------------------------------------------------------------------------------------

ExpertChoice CpuBackend::route(const float* logits, int n_tokens, const Router& router) {
  return router_.route(logits, n_tokens, router);
}

void CpuBackend::experts(std::span<const Expert> experts, FfnActivation activation, const float* x,
                         const ExpertChoice& choice, float* out, ExpertCounts& counts) {
  experts_.run(experts, activation, x, choice, out, counts);
}

void CpuBackend::missing_expert_rows(std::span<const Expert> experts, FfnActivation activation,
                                     const float* x, const ExpertChoice& choice, const int32_t* slots,
                                     float* rows, ExpertCounts& counts) {
  experts_.run_missing(experts, activation, x, choice, slots, rows, counts);
}

// ---- neurons: which of the two algorithms in sparse_ffn.h a step uses ----

NeuronSetId CpuBackend::make_set() {
  const NeuronSetId id = next_set(sets_.size(), static_cast<size_t>(bounds_.n_sets));
  sets_.emplace_back().reserve(bounds_.max_tokens, bounds_.max_cols);
  return id;
}

void CpuBackend::select_neurons(const float* values, const float* sizes, int n_tokens, int64_t n_neurons,
                                float at_least, NeuronSet& set) {
  sparse_.select(values, sizes, n_tokens, n_neurons, at_least, set);
}

void CpuBackend::ffn_neurons(const FfnNeurons& ffn, const float* x, int n_tokens, const NeuronSet& set,
                             const float* gates, float* out, NeuronCounts& counts) {
  if (integer_sums_) {
    const NeuronSums sums = cleared_sums(n_tokens, ffn.down.n_cols);
    ffn_neuron_sums(ffn, x, n_tokens, set, gates, sums, counts);
    return add_sums(sums, ffn.down.bias, n_tokens, ffn.down.n_cols, out);
  }
  counts.proposed += set.count();
  if (n_tokens <= few_tokens_) {
    const std::byte* quantized = quantized_for(ffn, x, n_tokens, gates);
    sparse_.ffn_few(ffn, x, quantized, n_tokens, set, gates, out, counts);
    return;
  }
  const NeuronSet& passed = values_of_many(ffn, x, n_tokens, set, gates, counts);
  sparse_.down_many(ffn.down, sparse_.values(), n_tokens, passed, out, counts);
}

void CpuBackend::ffn_neuron_sums(const FfnNeurons& ffn, const float* x, int n_tokens, const NeuronSet& set,
                                 const float* gates, const NeuronSums& sums, NeuronCounts& counts) {
  counts.proposed += set.count();
  if (n_tokens <= few_tokens_) {
    const std::byte* quantized = quantized_for(ffn, x, n_tokens, gates);
    sparse_.ffn_few_sums(ffn, x, quantized, n_tokens, set, gates, sums, counts);
    return;
  }
  const NeuronSet& passed = values_of_many(ffn, x, n_tokens, set, gates, counts);
  sparse_.down_many_sums(ffn.down, sparse_.values(), n_tokens, passed, sums, counts);
}

void CpuBackend::contribution_sums(const FfnNeurons& ffn, const float* x, int n_tokens, const NeuronSet& set,
                                   float least, const NeuronSums& sums, NeuronCounts& counts) {
  float *gates = sparse_.gates(), *values = sparse_.values();
  multiply_neurons(ffn.gate, ffn.gate_bias, x, n_tokens, set, gates);
  if (ffn.up) multiply_neurons(ffn.up, ffn.up_bias, x, n_tokens, set, values);
  gated_activation(ffn.activation, gates, ffn.up ? values : nullptr, n_tokens * ffn.gate.n_rows, values);
  const NeuronSet& kept = sparse_.keep_from(values, ffn.down_sizes, n_tokens, set, least);
  down_neuron_sums(ffn.down, values, n_tokens, kept, sums, counts);
}

NeuronSums CpuBackend::cleared_sums(int n_tokens, int64_t n_cols) {
  const NeuronSums sums{reinterpret_cast<int64_t*>(sums_.floats()), poison_.data()};
  std::fill_n(sums.sums, n_tokens * n_cols, int64_t{0});
  std::fill_n(sums.poison, n_tokens, 0);
  return sums;
}

/// Adds the sums, each rounded to a float, and the bias to out; poisoned sums give NaN.
void CpuBackend::add_sums(const NeuronSums& sums, const float* bias, int n_tokens, int64_t n_cols,
                          float* out) {
  for (int64_t t = 0; t < n_tokens; ++t) {
    for (int64_t i = t * n_cols, c = 0; c < n_cols; ++i, ++c) {
      float sum = static_cast<float>(sums.sums[i]) * 0x1p-36f;
      if (sums.poison[t] != 0) sum = std::numeric_limits<float>::quiet_NaN();
      out[i] += sum;
      if (bias != nullptr) out[i] += bias[c];
    }
  }
}

/// Returns x in quantized form if the FFN's algorithm for few tokens needs it, else null.
const std::byte* CpuBackend::quantized_for(const FfnNeurons& ffn, const float* x, int n_tokens,
                                           const float* gates) {
  const bool needed = (gates == nullptr && uses_quantized_activations(ffn.gate.dtype)) ||
                      (ffn.up && uses_quantized_activations(ffn.up.dtype));
  return needed ? quantize(x, n_tokens, ffn.gate.n_cols) : nullptr;
}

/// Fills sparse_.values() for many tokens. Returns the neurons whose values it filled.
const NeuronSet& CpuBackend::values_of_many(const FfnNeurons& ffn, const float* x, int n_tokens,
                                            const NeuronSet& set, const float* gates, NeuronCounts& counts) {
  if (gates == nullptr) {
    counts.gate_rows += multiply_neurons(ffn.gate, ffn.gate_bias, x, n_tokens, set, sparse_.gates());
    gates = sparse_.gates();
  }
  const NeuronSet& passed = sparse_.pass_gates(ffn, gates, n_tokens, set, counts);
  if (!ffn.up) return passed;
  float* values = sparse_.values();
  counts.up_rows += multiply_neurons(ffn.up, ffn.up_bias, x, n_tokens, passed, values);
  gated_activation(ffn.activation, gates, values, n_tokens * ffn.gate.n_rows, values);
  return passed;
}

void CpuBackend::down_neurons(const DownColumns& down, const float* values, int n_tokens,
                              const NeuronSet& set, float* out, NeuronCounts& counts) {
  if (integer_sums_) {
    const NeuronSums sums = cleared_sums(n_tokens, down.n_cols);
    down_neuron_sums(down, values, n_tokens, set, sums, counts);
    return add_sums(sums, down.bias, n_tokens, down.n_cols, out);
  }
  counts.proposed += set.count();
  if (n_tokens <= few_tokens_) {
    sparse_.down_few(down, values, n_tokens, set, out, counts);
  } else {
    sparse_.down_many(down, values, n_tokens, set, out, counts);
  }
}

void CpuBackend::down_neuron_sums(const DownColumns& down, const float* values, int n_tokens,
                                  const NeuronSet& set, const NeuronSums& sums, NeuronCounts& counts) {
  counts.proposed += set.count();
  if (n_tokens <= few_tokens_) {
    sparse_.down_few_sums(down, values, n_tokens, set, sums, counts);
  } else {
    sparse_.down_many_sums(down, values, n_tokens, set, sums, counts);
  }
}

/// Writes the products of x with the rows of the set's neurons to out [n_tokens, n_rows]. Columns of other
/// neurons are undefined. Returns the number of rows read.
int64_t CpuBackend::multiply_neurons(const Matrix& weight, const float* bias, const float* x, int n_tokens,
                                     const NeuronSet& set, float* out) {
  const std::span<const int32_t> ids = set.ids();
  const int64_t n_rows = weight.n_rows, n_listed = static_cast<int64_t>(ids.size());
  if (!lists_rows(weight, x, n_tokens, ids)) {
    const Product all{weight, bias, out, n_rows, false};
    matmul(x, n_tokens, {&all, 1});
    return n_rows;
  }
  float* products = sparse_.products();
  const Product listed{weight, bias, products, n_listed, false, ids};
  matmul(x, n_tokens, {&listed, 1});
  pool_.for_each_piece(n_tokens, row_grain(n_listed), [&](int64_t begin, int64_t end, int) {
    for (int64_t t = begin; t < end; ++t) {
      for (size_t i = 0; i < ids.size(); ++i)
        out[t * n_rows + ids[i]] = products[t * n_listed + static_cast<int64_t>(i)];
    }
  });
  return n_listed;
}

/// Returns whether multiplying only the rows `ids` is faster than multiplying all rows of the weight.
bool CpuBackend::lists_rows(const Matrix& weight, const float* x, int n_tokens,
                            std::span<const int32_t> ids) {
  if (row_choice_ != RowChoice::kMeasured) return row_choice_ == RowChoice::kListed;
  const int64_t n_listed = static_cast<int64_t>(ids.size());
  if (n_listed == weight.n_rows) return false;
  if (2 * n_listed <= weight.n_rows) return true;
  const int tokens =
      std::min(static_cast<int>(std::bit_floor(static_cast<unsigned>(n_tokens))), RowCost::kTokens);
  const int64_t n = std::min(RowCost::kRows, n_listed);
  Product all{weight, nullptr, sparse_.products(), n, false};
  all.weight.n_rows = n;
  const Product listed{weight, nullptr, sparse_.products(), n, false, ids.first(static_cast<size_t>(n))};
  const double ratio = row_cost_.ratio(
      weight.dtype, weight.n_cols, tokens,
      [&] {
        matmul(x, tokens, {&all, 1});
      },
      [&] {
        matmul(x, tokens, {&listed, 1});
      });
  return static_cast<double>(n_listed) * ratio < static_cast<double>(weight.n_rows);
}

}  // namespace hearth
