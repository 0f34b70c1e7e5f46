// Attention over the paged cache: against doubles on every ISA, and bit for bit the same however a sequence
// is cut into steps, whatever else is in the batch and however many threads run.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <random>

#include "kernels/cpu/cpu_backend.h"
#include "kernels/quant/half.h"
#include "tests/support/catch.h"
#include "tests/support/reference_ops.h"

namespace hearth {
namespace {

struct Heads {
  int n_heads;
  int n_kv_heads;
  int head_dim;
};

/// Sequences of random queries, keys and values, and a cache whose blocks lie in shuffled order.
class Sequences {
 public:
  Sequences(Heads heads, int block_tokens, std::vector<int> lengths, unsigned seed = 1)
      : heads_(heads), lengths_(std::move(lengths)), random_(seed) {
    int n_blocks = 0;
    for (int length : lengths_)
      max_blocks_ = std::max(max_blocks_, (length + block_tokens - 1) / block_tokens);
    n_blocks = max_blocks_ * static_cast<int>(lengths_.size());
    shape_ = {heads.n_kv_heads, heads.head_dim, block_tokens, n_blocks};
    for (int b = 0; b < n_blocks; ++b) tables_.push_back(b);
    std::shuffle(tables_.begin(), tables_.end(), random_);
    for (int length : lengths_) {
      q_.push_back(numbers(length * heads.n_heads * heads.head_dim, 1.5f));
      k_.push_back(numbers(length * heads.n_kv_heads * heads.head_dim, 1.5f));
      v_.push_back(numbers(length * heads.n_kv_heads * heads.head_dim, 1.0f));
      // What the cache holds of them.
      for (std::vector<float>* cached : {&k_.back(), &v_.back()}) {
        for (float& x : *cached) x = float_from_half(half_from_float(x));
      }
    }
  }

  /// Runs tokens [begin, end) of each sequence given as one step, and returns the outputs in that order;
  /// without `attend` only their keys and values go to the cache.
  struct Range {
    int sequence, begin, end;
  };
  std::vector<float> step(CpuBackend& backend, const std::vector<Range>& ranges, bool attend = true) {
    std::vector<float> q, k, v;
    std::vector<int32_t> positions, table_of;
    for (const Range& range : ranges) {
      const size_t s = static_cast<size_t>(range.sequence);
      append(q, q_[s], range, heads_.n_heads);
      append(k, k_[s], range, heads_.n_kv_heads);
      append(v, v_[s], range, heads_.n_kv_heads);
      for (int p = range.begin; p < range.end; ++p) {
        positions.push_back(p);
        table_of.push_back(range.sequence);
      }
    }
    const KvPlaces places{static_cast<int>(positions.size()), positions.data(), table_of.data(),
                          tables_.data(), max_blocks_};
    const KvLayer layer{k_cache_.data(), v_cache_.data()};
    const int64_t kv_stride = int64_t{heads_.n_kv_heads} * heads_.head_dim;
    const int64_t q_stride = int64_t{heads_.n_heads} * heads_.head_dim;
    backend.kv_append(k.data(), v.data(), kv_stride, places, shape_, layer);
    std::vector<float> out(q.size(), NAN);
    if (!attend) return out;
    backend.attention(q.data(), q_stride, heads_.n_heads, scale(), places, shape_, layer, out.data());
    return out;
  }

  /// The cache as a server leaves it behind: full of what earlier requests wrote, infinities included.
  void forget() {
    const size_t halves = static_cast<size_t>(shape_.n_blocks) * static_cast<size_t>(shape_.block_tokens) *
                          static_cast<size_t>(heads_.n_kv_heads * heads_.head_dim);
    k_cache_.assign(halves, 0x7e00);  // not a number
    v_cache_.assign(halves, 0x7c00);  // infinity
  }

  std::vector<double> expected(int sequence, int position, int head) const {
    const size_t s = static_cast<size_t>(sequence);
    const int kv_head = head / (heads_.n_heads / heads_.n_kv_heads);
    std::vector<const float*> keys, values;
    for (int p = 0; p <= position; ++p) {
      const size_t at = static_cast<size_t>((p * heads_.n_kv_heads + kv_head) * heads_.head_dim);
      keys.push_back(k_[s].data() + at);
      values.push_back(v_[s].data() + at);
    }
    const float* q = q_[s].data() + (position * heads_.n_heads + head) * heads_.head_dim;
    return testing::reference_attention(q, keys, values, heads_.head_dim, double{scale()});
  }

  float scale() const { return 1.0f / std::sqrt(static_cast<float>(heads_.head_dim)); }
  int length(int sequence) const { return lengths_[static_cast<size_t>(sequence)]; }
  int token_floats() const { return heads_.n_heads * heads_.head_dim; }

 private:
  std::vector<float> numbers(int n, float deviation) {
    std::normal_distribution<float> normal(0.0f, deviation);
    std::vector<float> out(static_cast<size_t>(n));
    for (float& x : out) x = normal(random_);
    return out;
  }
  void append(std::vector<float>& to, const std::vector<float>& from, const Range& range, int n_heads) const {
    const auto row = [&](int position) { return from.begin() + position * n_heads * heads_.head_dim; };
    to.insert(to.end(), row(range.begin), row(range.end));
  }

  Heads heads_;
  std::vector<int> lengths_;
  std::mt19937 random_;
  KvShape shape_;
  int max_blocks_ = 0;
  std::vector<int32_t> tables_;
  std::vector<std::vector<float>> q_, k_, v_;
  std::vector<uint16_t> k_cache_, v_cache_;
};

std::unique_ptr<CpuBackend> make_backend(Heads heads, int n_threads, Isa isa, int max_context) {
  auto backend = std::make_unique<CpuBackend>(n_threads, isa);
  backend->reserve({1024, int64_t{heads.n_heads} * heads.head_dim, heads.n_heads, max_context});
  return backend;
}

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

// Keys and values are exact in half, so what is left is float arithmetic: scores of size up to about 10 are
// off by some 1e-6 of their terms' sum, which moves a weight by as much; weights sum to 1 and values are
// about 1.
constexpr double kTolerance = 2e-5;

void check_against_doubles(Heads heads, int block_tokens, int length) {
  for (Isa isa : supported_isas()) {
    const std::unique_ptr<CpuBackend> backend = make_backend(heads, 2, isa, length);
    Sequences sequences(heads, block_tokens, {length});
    sequences.forget();
    const std::vector<float> out = sequences.step(*backend, {{0, 0, length}});
    double worst = 0;
    for (int position = 0; position < length; position += std::max(1, length / 7)) {
      for (int head = 0; head < heads.n_heads; ++head) {
        const std::vector<double> expected = sequences.expected(0, position, head);
        const float* ours = out.data() + (position * heads.n_heads + head) * heads.head_dim;
        for (size_t d = 0; d < expected.size(); ++d) {
          const double error = std::abs(double{ours[d]} - expected[d]);
          worst = error <= worst ? worst : error;  // a NaN is the worst
        }
      }
    }
    INFO(isa_name(isa) << ", " << heads.n_heads << "/" << heads.n_kv_heads << " heads of " << heads.head_dim
                       << ", blocks of " << block_tokens << ", length " << length);
    CHECK(worst < kTolerance);
  }
}

}  // namespace

TEST_CASE("attention is softmax(q k) v for every head size and grouping", "[attention]") {
  check_against_doubles({9, 3, 64}, 16, 200);
  check_against_doubles({5, 5, 80}, 16, 70);
  check_against_doubles({7, 1, 96}, 32, 70);
  check_against_doubles({8, 2, 128}, 16, 129);
  check_against_doubles({2, 1, 256}, 16, 40);
  check_against_doubles({3, 1, 20}, 16, 40);   // a head's last lanes are not full
  check_against_doubles({100, 1, 16}, 16, 9);  // more heads share keys than a tile has rows
}

TEST_CASE("attention works with any block size and length", "[attention]") {
  for (int block_tokens : {1, 5, 16, 24, 32, 64, 100}) check_against_doubles({2, 1, 32}, block_tokens, 131);
  for (int length : {1, 2, 15, 16, 17, 63, 64, 65, 256, 257, 600})
    check_against_doubles({2, 1, 32}, 16, length);
}

TEST_CASE("attention gives a token the same bits in any batch, slicing and thread count", "[attention]") {
  const Heads heads{6, 2, 24};
  const int n = 600;  // several slices of keys
  for (Isa isa : supported_isas()) {
    const std::unique_ptr<CpuBackend> one = make_backend(heads, 1, isa, n);
    Sequences sequences(heads, 16, {n, 100});
    sequences.forget();
    std::vector<float> whole = sequences.step(*one, {{0, 0, 500}});
    const std::vector<float> rest = sequences.step(*one, {{0, 500, n}});
    whole.insert(whole.end(), rest.begin(), rest.end());
    INFO(isa_name(isa));
    for (int n_threads : {1, 2, 3, 5}) {
      const std::unique_ptr<CpuBackend> backend = make_backend(heads, n_threads, isa, n);
      sequences.forget();
      std::vector<float> pieces;
      // Steps of all sizes, each with some of the other sequence before or after.
      int begin = 0, other = 0;
      for (int size : {1, 7, 64, 3, 200, 1, 280, 30}) {
        const bool first = begin % 2 == 0;
        const Sequences::Range ours{0, begin, begin + size}, others{1, other, other + 11};
        const std::vector<float> out =
            first ? sequences.step(*backend, {ours, others}) : sequences.step(*backend, {others, ours});
        const auto at = out.begin() + (first ? 0 : 11 * sequences.token_floats());
        pieces.insert(pieces.end(), at, at + size * sequences.token_floats());
        begin += size;
        other += 11;
      }
      while (begin < n) {  // decode
        const std::vector<float> out = sequences.step(*backend, {{0, begin, begin + 1}});
        pieces.insert(pieces.end(), out.begin(), out.end());
        ++begin;
      }
      INFO(n_threads << " threads");
      CHECK(same_bits(pieces, whole));
    }
  }
}

TEST_CASE("attention over a context of more slices than results are kept for", "[attention]") {
  const Heads heads{2, 1, 16};
  const int n = 8300;  // beyond 32 slices of 256 they become longer
  for (Isa isa : supported_isas()) {
    Sequences sequences(heads, 16, {n});
    sequences.forget();
    const std::unique_ptr<CpuBackend> one = make_backend(heads, 1, isa, n);
    const std::unique_ptr<CpuBackend> three = make_backend(heads, 3, isa, n);
    sequences.step(*one, {{0, 0, 8180}}, /*attend=*/false);
    // Tokens on both sides of 8192 in one tile.
    const std::vector<float> whole = sequences.step(*one, {{0, 8180, 8220}});
    std::vector<float> alone;
    for (int p = 8180; p < 8220; ++p) {
      const std::vector<float> out = sequences.step(*three, {{0, p, p + 1}});
      alone.insert(alone.end(), out.begin(), out.end());
    }
    CHECK(same_bits(alone, whole));
    for (int position : {8191, 8192}) {
      const std::vector<double> expected = sequences.expected(0, position, 1);
      const float* ours = whole.data() + (position - 8180) * sequences.token_floats() + 16;
      for (size_t d = 0; d < expected.size(); ++d)
        CHECK(std::abs(double{ours[d]} - expected[d]) < kTolerance);
    }
  }
}

}  // namespace hearth
