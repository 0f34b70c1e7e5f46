// How each operation is cut into pieces for the threads. See the header.
#include "kernels/cpu/cpu_backend.h"

#include <sys/mman.h>

#include <algorithm>
#include <cassert>
#include <cstring>
#include <new>
#include <stdexcept>

#include "kernels/quant/dequantize.h"

namespace hearth {
namespace {

// Floats a piece of an elementwise operation has at least: 16 KiB are 1 to 2 microseconds of one core, what a
// fork costs. Smaller operations stay on the calling thread, where their operands are in the cache already.
constexpr int64_t kPieceFloats = 4096;

Isa checked(Isa isa) {
  const std::vector<Isa> supported = supported_isas();
  if (std::ranges::find(supported, isa) != supported.end()) return isa;
  std::string names;
  for (Isa other : supported) names += (names.empty() ? "" : ", ") + std::string(isa_name(other));
  throw std::invalid_argument("This processor or operating system cannot run the instruction set " +
                              std::string(isa_name(isa)) + "; it can run: " + names + ".");
}

int checked(int n_threads) {
  if (n_threads >= 1) return n_threads;
  throw std::invalid_argument("The CPU backend was given " + std::to_string(n_threads) +
                              " threads; it needs at least 1.");
}

/// First of the halves that token t's keys or values go to in block-major layout: its block's first.
int64_t block_start(const KvPlaces& places, const KvShape& shape, int t) {
  const int64_t table = int64_t{places.table_of[t]} * places.max_blocks;
  const int64_t block = places.block_tables[table + places.positions[t] / shape.block_tokens];
  return block * shape.n_kv_heads * shape.block_tokens * shape.head_dim;
}

}  // namespace

CpuBackend::CpuBackend(int n_threads, Isa isa)
    : isa_(checked(isa)),
      matmul_(matmul_kernels(isa)),
      vector_(vector_kernels(isa)),
      pool_(checked(n_threads)),
      attention_(pool_, vector_),
      sparse_(pool_, matmul_, vector_, down_kernels(isa), down_sums_kernels(isa)) {}

std::string CpuBackend::description() const {
  const int n = pool_.n_threads();
  return "CPU " + std::string(isa_name(isa_)) + ", " + std::to_string(n) + (n == 1 ? " thread" : " threads");
}

Buffer CpuBackend::allocate(size_t bytes) {
  if (bytes == 0) return {};
  void* data = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (data == MAP_FAILED) throw std::bad_alloc();
  // A head's blocks lie pages apart: large pages made attention over 4096 positions 5 % faster. Only a wish.
  madvise(data, bytes, MADV_HUGEPAGE);
  return {data, bytes, [](void* mapped, size_t size) { munmap(mapped, size); }};
}

void CpuBackend::reserve(const StepBounds& bounds) {
  bounds_ = bounds;
  const int max_tokens = bounds.max_tokens;
  const int64_t max_cols = bounds.max_cols;
  const int max_head_dim =
      bounds.head_dim > 0 ? bounds.head_dim : static_cast<int>(max_cols / bounds.n_heads);
  constexpr int64_t kLargestBlock =
      256;  // rows are whole blocks; a larger row never takes less than a smaller
  const int64_t whole_blocks = (max_cols + kLargestBlock - 1) / kLargestBlock * kLargestBlock;
  quantized_ = allocate(static_cast<size_t>(max_tokens) * activation_row_bytes(whole_blocks));
  sparse_.reserve(max_tokens, max_cols, *this);
  attention_.reserve(max_tokens, bounds.n_heads, max_head_dim, bounds.max_context);
  rope_table_.reserve(max_tokens, max_head_dim);
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
  pool_.for_each_chunk(n_tokens, row_grain(table.n_cols), [&](int64_t begin, int64_t end, int) {
    for (int64_t i = begin; i < end; ++i) {
      const int32_t token = tokens[static_cast<size_t>(i)];
      dequantize_row(table.dtype, table.row(token), table.n_cols, out + i * table.n_cols);
    }
  });
}

void CpuBackend::add(const float* x, int64_t n, float* out) {
  pool_.for_each_chunk(n, kPieceFloats, [&](int64_t begin, int64_t end, int) {
    for (int64_t i = begin; i < end; ++i) out[i] += x[i];
  });
}

void CpuBackend::rms_norm(const float* x, const float* weight, float eps, int64_t n_rows, int64_t n_cols,
                          float* out) {
  pool_.for_each_chunk(n_rows, row_grain(n_cols), [&](int64_t begin, int64_t end, int) {
    for (int64_t r = begin; r < end; ++r) {
      vector_.rms_norm(x + r * n_cols, weight, eps, n_cols, out + r * n_cols);
    }
  });
}

void CpuBackend::layer_norm(const float* x, const float* weight, const float* bias, float eps, int64_t n_rows,
                            int64_t n_cols, float* out) {
  pool_.for_each_chunk(n_rows, row_grain(n_cols), [&](int64_t begin, int64_t end, int) {
    for (int64_t r = begin; r < end; ++r) {
      vector_.layer_norm(x + r * n_cols, weight, bias, eps, n_cols, out + r * n_cols);
    }
  });
}

void CpuBackend::rope(float* x, int64_t stride, int n_heads, int head_dim, std::span<const int32_t> positions,
                      const Rope& rope) {
  if (rope.kind == RopeKind::kNone || rope.n_rot == 0 || positions.empty()) return;
  rope_table_.prepare(positions, rope, pool_);
  const int64_t n_tokens = static_cast<int64_t>(positions.size());
  pool_.for_each_chunk(
      n_tokens, row_grain(int64_t{n_heads} * head_dim), [&](int64_t begin, int64_t end, int) {
        for (int64_t t = begin; t < end; ++t) {
          for (int64_t h = 0; h < n_heads; ++h) {
            vector_.rotate(rope.kind, rope_table_.row(t), rope.n_rot, x + t * stride + h * head_dim);
          }
        }
      });
}

void CpuBackend::kv_append(const float* k, const float* v, int64_t stride, const KvPlaces& places,
                           const KvShape& shape, KvLayer layer) {
  const int64_t head_dim = shape.head_dim;
  const int64_t block_tokens = shape.block_tokens;
  const int64_t grain = std::max<int64_t>(1, kPieceFloats / (2 * shape.n_kv_heads * head_dim));
  pool_.for_each_chunk(places.n_tokens, grain, [&](int64_t begin, int64_t end, int worker) {
    uint16_t* keys = halves_[static_cast<size_t>(worker)].data();
    for (int64_t t = begin; t < end; ++t) {
      const int64_t start = block_start(places, shape, static_cast<int>(t));
      const int64_t within = places.positions[t] % block_tokens;
      vector_.to_half(k + t * stride, shape.n_kv_heads * head_dim, keys);
      // A key is a column of its block, [n_kv_heads * head_dim, block_tokens].
      uint16_t* column = layer.k + start + within;
      for (int64_t i = 0; i < shape.n_kv_heads * head_dim; ++i) column[i * block_tokens] = keys[i];
      // A value is a row of each head's [block_tokens, head_dim].
      for (int64_t h = 0; h < shape.n_kv_heads; ++h) {
        vector_.to_half(v + t * stride + h * head_dim, head_dim,
                        layer.v + start + (h * block_tokens + within) * head_dim);
      }
    }
  });
}

void CpuBackend::attention(const float* q, int64_t stride, int n_heads, float scale, const KvPlaces& places,
                           const KvShape& shape, KvLayer layer, float* out) {
  attention_.run(q, stride, n_heads, scale, places, shape, layer, out);
}

void CpuBackend::gated_activation(FfnActivation act, const float* gate, const float* up, int64_t n,
                                  float* out) {
  // Pieces are whole lanes, though an element's result does not depend on its place.
  constexpr int64_t kRow = 64;
  pool_.for_each_chunk((n + kRow - 1) / kRow, row_grain(kRow), [&](int64_t begin, int64_t end, int) {
    const int64_t first = begin * kRow;
    const float* ups = up == nullptr ? nullptr : up + first;
    vector_.gated_activation(act, gate + first, ups, std::min(n, end * kRow) - first, out + first);
  });
}

void CpuBackend::gather_rows(const float* x, int64_t n_cols, std::span<const int32_t> rows, float* out) {
  const int64_t n_rows = static_cast<int64_t>(rows.size());
  pool_.for_each_chunk(n_rows, row_grain(n_cols), [&](int64_t begin, int64_t end, int) {
    for (int64_t i = begin; i < end; ++i) {
      std::memcpy(out + i * n_cols, x + rows[static_cast<size_t>(i)] * n_cols,
                  static_cast<size_t>(n_cols) * sizeof(float));
    }
  });
}

}  // namespace hearth
