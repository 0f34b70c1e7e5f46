// Products with scattered rows and with listed rows: they have the bits of the whole product with packed
// rows, for every type and ISA, and through the backend on any number of threads.
#include <algorithm>
#include <cstring>

#include "kernels/cpu/cpu_backend.h"
#include "kernels/quant/dequantize.h"
#include "tests/kernels/matmul_run.h"
#include "tests/kernels/weight_rows.h"
#include "tests/support/catch.h"

namespace hearth::test {
namespace {

constexpr int64_t kRows = 37;
constexpr int kTokens = 40;
constexpr float kUntouched = -7.0f;

/// `packed`'s rows, `stride` bytes apart, with random bytes between them. No byte follows the last row, so
/// that a read beyond it is found.
OwnedMatrix spread(const Matrix& packed, size_t stride, std::mt19937& rng) {
  const size_t bytes = row_bytes(packed.dtype, packed.n_cols);
  OwnedMatrix matrix;
  matrix.bytes.resize(stride * static_cast<size_t>(packed.n_rows - 1) + bytes);
  for (std::byte& byte : matrix.bytes) byte = static_cast<std::byte>(rng());
  for (int64_t r = 0; r < packed.n_rows; ++r) {
    std::memcpy(matrix.bytes.data() + static_cast<size_t>(r) * stride, packed.row(r), bytes);
  }
  matrix.view = packed;
  matrix.view.data = matrix.bytes.data();
  matrix.view.row_stride = stride;
  return matrix;
}

int64_t columns_of(DType type) {
  const int64_t block = dtype_info(type).block_elems;
  return block == 1 ? 101 : block == 32 ? 352 : 512;
}

/// Ascending rows, like a list of active neurons.
std::vector<int32_t> ascending_rows(size_t n, std::mt19937& rng) {
  std::vector<int32_t> rows(kRows);
  for (size_t i = 0; i < rows.size(); ++i) rows[i] = static_cast<int32_t>(i);
  std::shuffle(rows.begin(), rows.end(), rng);
  rows.resize(n);
  std::sort(rows.begin(), rows.end());
  return rows;
}

/// In any order, some of them more than once.
std::vector<int32_t> mixed_rows(size_t n, std::mt19937& rng) {
  std::vector<int32_t> rows(n);
  for (int32_t& row : rows) row = static_cast<int32_t>(rng() % kRows);
  return rows;
}

/// Products of one type on one ISA, compared with the whole product of the packed rows.
class Subject {
 public:
  Subject(Isa isa, DType type, std::mt19937& rng)
      : isa_(isa),
        packed_(random_matrix(type, kRows, columns_of(type), rng)),
        x_(random_activations(kTokens * columns_of(type), rng)),
        quantized_(matmul_kernels(isa), x_, uses_quantized_activations(type) ? kTokens : 0, columns_of(type)),
        whole_(multiply(isa, packed_.view, x_, kTokens)) {}

  const Matrix& packed() const { return packed_.view; }
  float whole(int token, int64_t row) const { return whole_[static_cast<size_t>(token * kRows + row)]; }

  /// Computes places [begin, end) of `rows` (or of all rows) of `weight` for n_tokens tokens. Returns how
  /// many outputs differ from the whole product's in a bit, or were written outside the range.
  int wrong(const Matrix& weight, const std::vector<int32_t>* rows, int64_t begin, int64_t end,
            int n_tokens) {
    constexpr int64_t kStride = 50;
    std::vector<float> out(static_cast<size_t>(n_tokens * kStride), kUntouched);
    MatmulArgs args;
    args.weight = &weight;
    args.rows = rows != nullptr ? rows->data() : nullptr;
    args.row_begin = begin;
    args.row_end = end;
    args.x = x_.data();
    args.quantized = uses_quantized_activations(weight.dtype) ? quantized_.row(0) : nullptr;
    args.n_tokens = n_tokens;
    args.out = out.data();
    args.out_stride = kStride;
    matmul_kernels(isa_).multiply[static_cast<size_t>(weight.dtype)](args);
    int count = 0;
    for (int t = 0; t < n_tokens; ++t) {
      for (int64_t i = 0; i < kStride; ++i) {
        const bool inside = i >= begin && i < end;
        const int64_t row = inside && rows != nullptr ? (*rows)[static_cast<size_t>(i)] : i;
        const float expected = inside ? whole(t, row) : kUntouched;
        count += std::memcmp(&out[static_cast<size_t>(t * kStride + i)], &expected, sizeof expected) != 0;
      }
    }
    return count;
  }

 private:
  Isa isa_;
  OwnedMatrix packed_;
  std::vector<float> x_;
  QuantizedRows quantized_;
  std::vector<float> whole_;
};

/// Packed, in bundles of two and three, and at odd distances.
std::vector<OwnedMatrix> layouts(const Matrix& packed, std::mt19937& rng) {
  const size_t bytes = row_bytes(packed.dtype, packed.n_cols);
  std::vector<OwnedMatrix> views;
  for (const size_t stride : {bytes, 2 * bytes, 3 * bytes, bytes + 34}) {
    views.push_back(spread(packed, stride, rng));
  }
  return views;
}

}  // namespace

TEST_CASE("a matrix knows the places and the sizes of its rows") {
  std::byte bytes[1000];
  Matrix matrix = {bytes, DType::kQ4_0, 5, 64};
  CHECK(matrix.stride_bytes() == 36);
  CHECK(matrix.row(3) == bytes + 108);
  CHECK(matrix.bytes() == 180);
  matrix.row_stride = 100;
  CHECK(matrix.stride_bytes() == 100);
  CHECK(matrix.row(3) == bytes + 300);
  CHECK(matrix.bytes() == 180);
}

TEST_CASE("rows that lie apart have the products of packed rows") {
  std::mt19937 rng(1);
  for (Isa isa : supported_isas()) {
    for (DType type : all_types()) {
      Subject subject(isa, type, rng);
      for (const OwnedMatrix& weight : layouts(subject.packed(), rng)) {
        for (int n_tokens : {1, 2, 7, 9, kTokens}) {
          for (auto [begin, end] : {std::pair<int64_t, int64_t>{0, kRows}, {3, 20}, {36, 37}, {5, 5}}) {
            INFO(isa_name(isa) << " " << dtype_info(type).name << " stride " << weight.view.row_stride
                               << " tokens " << n_tokens << " rows " << begin << "-" << end);
            REQUIRE(subject.wrong(weight.view, nullptr, begin, end, n_tokens) == 0);
          }
        }
      }
    }
  }
}

TEST_CASE("listed rows have the same products as among all rows") {
  std::mt19937 rng(2);
  for (Isa isa : supported_isas()) {
    for (DType type : all_types()) {
      Subject subject(isa, type, rng);
      for (const OwnedMatrix& weight : layouts(subject.packed(), rng)) {
        for (int n : {0, 1, 7, 16, 17, 35}) {
          const std::vector<int32_t> ascending = ascending_rows(static_cast<size_t>(n), rng);
          const std::vector<int32_t> mixed = mixed_rows(static_cast<size_t>(n), rng);
          for (int n_tokens : {1, 2, 3, 5, 8, 17, kTokens}) {
            INFO(isa_name(isa) << " " << dtype_info(type).name << " stride " << weight.view.row_stride
                               << " listed " << n << " tokens " << n_tokens);
            REQUIRE(subject.wrong(weight.view, &ascending, 0, n, n_tokens) == 0);
            REQUIRE(subject.wrong(weight.view, &mixed, n / 3, n, n_tokens) == 0);
          }
        }
      }
    }
  }
}

TEST_CASE("listed rows have the same products for every number of tokens") {
  std::mt19937 rng(3);
  for (Isa isa : supported_isas()) {
    for (DType type : all_types()) {
      Subject subject(isa, type, rng);
      const OwnedMatrix weight = spread(subject.packed(), 2 * subject.packed().stride_bytes(), rng);
      const std::vector<int32_t> rows = mixed_rows(17, rng);
      for (int n_tokens = 1; n_tokens <= kTokens; ++n_tokens) {
        INFO(isa_name(isa) << " " << dtype_info(type).name << " tokens " << n_tokens);
        REQUIRE(subject.wrong(weight.view, &rows, 0, 17, n_tokens) == 0);
      }
    }
  }
}

TEST_CASE(
    "the backend multiplies listed rows of bundles: bias by row number, residuals kept, nothing else "
    "written") {
  const int64_t n_cols = 256, n_rows = 700, stride = 800;
  std::mt19937 rng(4);
  for (DType type : {DType::kQ4_0, DType::kQ6_K, DType::kF16}) {
    const OwnedMatrix packed = random_matrix(type, n_rows, n_cols, rng);
    const OwnedMatrix weight = spread(packed.view, 3 * packed.view.stride_bytes(), rng);
    const std::vector<float> bias = random_activations(n_rows, rng);
    std::vector<int32_t> rows;
    for (int32_t r = 0; r < n_rows; ++r) {
      if (rng() % 3 == 0) rows.push_back(r);
    }
    const int64_t n = static_cast<int64_t>(rows.size());
    for (Isa isa : supported_isas()) {
      for (int n_threads : {1, 2, 5}) {
        CpuBackend backend(n_threads, isa);
        backend.reserve({kTokens, n_cols, 4, 16});
        for (int n_tokens : {1, 3, kTokens}) {
          const std::vector<float> x = random_activations(n_tokens * n_cols, rng);
          std::vector<float> whole(static_cast<size_t>(n_tokens * n_rows), 1.5f);
          backend.matmul(x.data(), n_tokens,
                         std::vector<Product>{{packed.view, bias.data(), whole.data(), n_rows, true, {}}});
          std::vector<float> listed(static_cast<size_t>(n_tokens * stride), 1.5f), none = listed;
          backend.matmul(x.data(), n_tokens,
                         std::vector<Product>{
                             {weight.view, bias.data(), none.data(), stride, true, std::span(rows).first(0)},
                             {weight.view, bias.data(), listed.data(), stride, true, rows}});
          int wrong = 0;
          for (int64_t i = 0; i < n_tokens * stride; ++i) {
            const int64_t token = i / stride, place = i % stride;
            const float expected =
                place < n ? whole[static_cast<size_t>(token * n_rows + rows[static_cast<size_t>(place)])]
                          : 1.5f;
            wrong += std::memcmp(&listed[static_cast<size_t>(i)], &expected, sizeof expected) != 0;
            wrong += none[static_cast<size_t>(i)] != 1.5f;
          }
          INFO(isa_name(isa) << " " << dtype_info(type).name << " threads " << n_threads << " tokens "
                             << n_tokens);
          REQUIRE(wrong == 0);
        }
      }
    }
  }
}

TEST_CASE("embed finds rows that lie apart") {
  std::mt19937 rng(5);
  const OwnedMatrix packed = random_matrix(DType::kQ8_0, 20, 96, rng);
  const OwnedMatrix table = spread(packed.view, 2 * packed.view.stride_bytes(), rng);
  const std::vector<int32_t> tokens = {19, 0, 7};
  std::vector<float> out(3 * 96), expected(3 * 96);
  CpuBackend(2, Isa::kScalar).embed(table.view, tokens, out.data());
  for (size_t i = 0; i < tokens.size(); ++i) {
    dequantize_row(DType::kQ8_0, packed.view.row(tokens[i]), 96, expected.data() + 96 * i);
  }
  CHECK(out == expected);
}

}  // namespace hearth::test
