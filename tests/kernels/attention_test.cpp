// Attention over the paged cache, with and without windows, soft caps, sinks, growing queries and visible
// later keys: compared with doubles on every ISA, and equal bit for bit however a sequence is cut into steps,
// whatever else is in the batch and however many threads run.
#include <algorithm>
#include <cmath>
#include <memory>
#include <random>

#include "kernels/cpu/cpu_backend.h"
#include "kernels/quant/half.h"
#include "tests/support/catch.h"
#include "tests/support/reference_ops.h"
#include "tests/support/same_bits.h"
#include "tests/support/sanitized.h"

namespace hearth {
namespace {

struct Heads {
  int n_heads;
  int n_kv_heads;
  int head_dim;
};

/// AttentionScores without the scale.
struct Scoring {
  int window = 0;
  float soft_cap = 0.0f;
  std::vector<float> sinks = {};  // one per head; empty for none
  bool ahead = false;             // a token sees its whole sequence
  std::vector<float> growth = {};
  int growth_span = 1;
  KvType type = KvType::kF16;  // of the cache
  int growth_from = 0;
  bool sectioned = false;          // the window is a section
  std::vector<float> slopes = {};  // one per head; empty for none

  const float* sinks_of(int n_heads) {
    if (sinks.empty()) return nullptr;
    for (size_t h = 0; sinks.size() < static_cast<size_t>(n_heads); ++h) sinks.push_back(sinks[h]);
    return sinks.data();
  }
  const float* slopes_of(int n_heads) {
    if (slopes.empty()) return nullptr;
    for (size_t h = 0; slopes.size() < static_cast<size_t>(n_heads); ++h) slopes.push_back(slopes[h]);
    return slopes.data();
  }
  std::string text() const {
    return (sectioned ? "section " : "window ") + std::to_string(window) + ", cap " +
           std::to_string(soft_cap) + ", " + std::to_string(sinks.size()) + " sinks" +
           (ahead ? ", ahead" : "") + (growth.empty() ? "" : ", growing") +
           (slopes.empty() ? "" : ", slopes") + ", " + kv_type_name(type);
  }
};

/// Sinks beside which keys count little, much, and not at all: scores are up to about 10.
const std::vector<float> kSinks = {1.5f, -4.0f, 12.0f, 0.0f, 150.0f};

/// Sequences of random queries, keys and values, and a cache whose blocks lie in shuffled order.
class Sequences {
 public:
  Sequences(Heads heads, int block_tokens, std::vector<int> lengths, KvType type = KvType::kF16)
      : heads_(heads), lengths_(std::move(lengths)), random_(1) {
    int n_blocks = 0;
    for (int length : lengths_)
      max_blocks_ = std::max(max_blocks_, (length + block_tokens - 1) / block_tokens);
    n_blocks = max_blocks_ * static_cast<int>(lengths_.size());
    shape_ = {heads.n_kv_heads, heads.head_dim, block_tokens, n_blocks, type};
    for (int b = 0; b < n_blocks; ++b) tables_.push_back(b);
    std::shuffle(tables_.begin(), tables_.end(), random_);
    for (int length : lengths_) {
      q_.push_back(numbers(length * heads.n_heads * heads.head_dim, 1.5f));
      k_.push_back(numbers(length * heads.n_kv_heads * heads.head_dim, 1.5f));
      v_.push_back(numbers(length * heads.n_kv_heads * heads.head_dim, 1.0f));
      // Rounds them as the cache does.
      for (std::vector<float>* cached : {&k_.back(), &v_.back()}) round(*cached, type);
    }
  }

  /// Runs tokens [begin, end) of each given sequence as one step, and returns the outputs in that order.
  /// Without `attend`, only stores their keys and values in the cache.
  struct Range {
    int sequence, begin, end;
  };
  std::vector<float> step(CpuBackend& backend, const std::vector<Range>& ranges, bool attend = true) {
    std::vector<float> q, k, v;
    std::vector<int32_t> positions, table_of, n_seen;
    for (const Range& range : ranges) {
      const size_t s = static_cast<size_t>(range.sequence);
      append(q, q_[s], range, heads_.n_heads);
      append(k, k_[s], range, heads_.n_kv_heads);
      append(v, v_[s], range, heads_.n_kv_heads);
      for (int p = range.begin; p < range.end; ++p) {
        positions.push_back(p);
        table_of.push_back(range.sequence);
        n_seen.push_back(lengths_[s]);
      }
    }
    const KvPlaces places{static_cast<int>(positions.size()),
                          positions.data(),
                          table_of.data(),
                          tables_.data(),
                          max_blocks_,
                          scoring_.ahead ? n_seen.data() : nullptr};
    const KvLayer layer{k_cache_.data(), v_cache_.data()};
    const int64_t kv_stride = int64_t{heads_.n_kv_heads} * heads_.head_dim;
    const int64_t q_stride = int64_t{heads_.n_heads} * heads_.head_dim;
    backend.kv_append(k.data(), v.data(), kv_stride, places, shape_, layer);
    std::vector<float> out(q.size(), NAN);
    if (!attend) return out;
    const AttentionScores scores{scale(),
                                 scoring_.window,
                                 scoring_.soft_cap,
                                 scoring_.sinks_of(heads_.n_heads),
                                 scoring_.growth.empty() ? nullptr : scoring_.growth.data(),
                                 scoring_.growth_span,
                                 scoring_.growth_from,
                                 scoring_.sectioned,
                                 scoring_.slopes_of(heads_.n_heads)};
    backend.attention(q.data(), q_stride, heads_.n_heads, scores, places, shape_, layer, out.data());
    return out;
  }

  void score_with(Scoring scoring) { scoring_ = std::move(scoring); }

  /// Spoils the positions before this one: any number read from them changes the result, and whole KV blocks
  /// cannot be read at all.
  void hide_before(int sequence, int position) {
    for (int p = 0; p < position; ++p) {
      int32_t& block = tables_[static_cast<size_t>(sequence * max_blocks_ + p / shape_.block_tokens)];
      const int within = p % shape_.block_tokens;
      if (p - within + shape_.block_tokens <= position) {
        block = 0x7fffffff;
        continue;
      }
      const int64_t width = int64_t{heads_.n_kv_heads} * heads_.head_dim;
      if (shape_.type == KvType::kQ8) {  // poisons the scales of all heads and groups
        const int64_t n_groups = heads_.head_dim / kKvGroup, block_halves = shape_.block_bytes() / 2;
        const int64_t scales = block * block_halves + shape_.block_numbers() / 2;
        for (int64_t i = 0; i < width / kKvGroup; ++i) {
          const int64_t value = (i / n_groups * shape_.block_tokens + within) * n_groups + i % n_groups;
          k_cache_[static_cast<size_t>(scales + i * shape_.block_tokens + within)] = 0x7e00;
          v_cache_[static_cast<size_t>(scales + value)] = 0x7c00;
        }
        continue;
      }
      for (int64_t i = 0; i < width; ++i) {
        const int64_t head = block * width + i / heads_.head_dim * heads_.head_dim, d = i % heads_.head_dim;
        k_cache_[static_cast<size_t>((head + d) * shape_.block_tokens + within)] = 0x7e00;  // NaN
        v_cache_[static_cast<size_t>(head * shape_.block_tokens + within * heads_.head_dim + d)] = 0x7c00;
      }
    }
  }

  /// Fills the cache with what earlier requests may have left in a server, infinities included.
  void forget() {
    const size_t halves = static_cast<size_t>(shape_.n_blocks * shape_.block_bytes()) / 2;
    k_cache_.assign(halves, 0x7e00);  // NaN
    v_cache_.assign(halves, 0x7c00);  // infinity
  }

  std::vector<double> expected(int sequence, int position, int head) const {
    const size_t s = static_cast<size_t>(sequence);
    const int kv_head = head / (heads_.n_heads / heads_.n_kv_heads);
    std::vector<const float*> keys, values;
    std::vector<double> lowered;
    int first = scoring_.window > 0 ? std::max(0, position + 1 - scoring_.window) : 0;
    if (scoring_.sectioned) first = position - position % scoring_.window;
    const int end = scoring_.ahead ? length(sequence) : position + 1;
    const int last = scoring_.window > 0 ? std::min(end, position + scoring_.window) - 1 : end - 1;
    for (int p = first; p <= last; ++p) {
      const size_t at = static_cast<size_t>((p * heads_.n_kv_heads + kv_head) * heads_.head_dim);
      keys.push_back(k_[s].data() + at);
      values.push_back(v_[s].data() + at);
      if (!scoring_.slopes.empty()) {
        const double slope = double{scoring_.slopes[static_cast<size_t>(head) % scoring_.slopes.size()]};
        lowered.push_back(slope * std::abs(position - p));
      }
    }
    const float* q = q_[s].data() + (position * heads_.n_heads + head) * heads_.head_dim;
    const std::vector<float>& sinks = scoring_.sinks;
    const float* sink = sinks.empty() ? nullptr : &sinks[static_cast<size_t>(head) % sinks.size()];
    const auto stretch = static_cast<size_t>((position + scoring_.growth_from) / scoring_.growth_span);
    const double growth = scoring_.growth.empty() ? 1.0 : double{scoring_.growth[stretch]};
    return testing::reference_attention(q, keys, values, heads_.head_dim, double{scale()} * growth,
                                        double{scoring_.soft_cap}, sink, lowered);
  }

  float scale() const { return 1.0f / std::sqrt(static_cast<float>(heads_.head_dim)); }
  int length(int sequence) const { return lengths_[static_cast<size_t>(sequence)]; }
  int token_floats() const { return heads_.n_heads * heads_.head_dim; }

 private:
  /// Rounds numbers as the cache does.
  static void round(std::vector<float>& numbers, KvType type) {
    if (type == KvType::kF16) {
      for (float& x : numbers) x = float_from_half(half_from_float(x));
      return;
    }
    for (size_t begin = 0; begin < numbers.size(); begin += kKvGroup) {
      const testing::ReferenceGroup group = testing::reference_kv_q8(numbers.data() + begin);
      for (int i = 0; i < kKvGroup; ++i) numbers[begin + static_cast<size_t>(i)] = group.number(i);
    }
  }
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
  Scoring scoring_;
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

// Keys and values are exact in the cache, so only float arithmetic remains: scores of up to about 10 are off
// by some 1e-6 of their terms' sum, which changes a weight by as much; weights sum to 1 and values are about
// 1.
constexpr double kTolerance = 2e-5;

void check_against_doubles(Heads heads, int block_tokens, int length, const Scoring& scoring = {}) {
  for (Isa isa : supported_isas()) {
    const std::unique_ptr<CpuBackend> backend = make_backend(heads, 2, isa, length);
    Sequences sequences(heads, block_tokens, {length}, scoring.type);
    sequences.forget();
    sequences.score_with(scoring);
    const std::vector<float> out = sequences.step(*backend, {{0, 0, length}});
    double worst = 0;
    for (int position = 0; position < length; position += std::max(1, length / 7)) {
      for (int head = 0; head < heads.n_heads; ++head) {
        const std::vector<double> expected = sequences.expected(0, position, head);
        const float* ours = out.data() + (position * heads.n_heads + head) * heads.head_dim;
        for (size_t d = 0; d < expected.size(); ++d) {
          const double error = std::abs(double{ours[d]} - expected[d]);
          worst = error <= worst ? worst : error;  // NaN is the worst
        }
      }
    }
    INFO(isa_name(isa) << ", " << heads.n_heads << "/" << heads.n_kv_heads << " heads of " << heads.head_dim
                       << ", blocks of " << block_tokens << ", length " << length << ", " << scoring.text());
    CHECK(worst < kTolerance);
  }
}

/// Compares steps of all sizes, alone and beside others, with the whole sequence in two steps.
void check_batches(Heads heads, const Scoring& scoring, const std::vector<int>& thread_counts) {
  const int n = 600;  // several slices of keys
  for (Isa isa : testing::model_isas()) {
    const std::unique_ptr<CpuBackend> one = make_backend(heads, 1, isa, n);
    Sequences sequences(heads, 16, {n, 100}, scoring.type);
    sequences.score_with(scoring);
    sequences.forget();
    std::vector<float> whole = sequences.step(*one, {{0, 0, 500}});
    const std::vector<float> rest = sequences.step(*one, {{0, 500, n}});
    whole.insert(whole.end(), rest.begin(), rest.end());
    INFO(isa_name(isa) << ", " << scoring.text());
    for (int n_threads : thread_counts) {
      const std::unique_ptr<CpuBackend> backend = make_backend(heads, n_threads, isa, n);
      sequences.forget();
      std::vector<float> pieces;
      // Steps of all sizes, each with a part of the other sequence before or after it.
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

/// Tokens on both sides of 8192, in one step and alone; some of them are compared with doubles.
void check_long_context(const Scoring& scoring, int head_dim = 16) {
  const Heads heads{2, 1, head_dim};
  const int n = 8300;  // beyond 32 slices of 256 they become longer
  for (Isa isa : supported_isas()) {
    Sequences sequences(heads, 16, {n}, scoring.type);
    sequences.score_with(scoring);
    sequences.forget();
    const std::unique_ptr<CpuBackend> one = make_backend(heads, 1, isa, n);
    const std::unique_ptr<CpuBackend> three = make_backend(heads, 3, isa, n);
    sequences.step(*one, {{0, 0, 8180}}, /*attend=*/false);
    const std::vector<float> whole = sequences.step(*one, {{0, 8180, 8220}});
    std::vector<float> alone, few;
    for (int p = 8180; p < 8220; ++p) {
      const std::vector<float> out = sequences.step(*three, {{0, p, p + 1}});
      alone.insert(alone.end(), out.begin(), out.end());
    }
    for (int p = 8180; p < 8220; p += 8) {  // the largest steps that are cut by slices
      const std::vector<float> out = sequences.step(*three, {{0, p, p + 8}});
      few.insert(few.end(), out.begin(), out.end());
    }
    INFO(isa_name(isa) << ", " << scoring.text());
    CHECK(same_bits(alone, whole));
    CHECK(same_bits(few, whole));
    for (int position : {8191, 8192}) {
      const std::vector<double> expected = sequences.expected(0, position, 1);
      const float* ours = whole.data() + (position - 8180) * sequences.token_floats() + head_dim;
      for (size_t d = 0; d < expected.size(); ++d)
        CHECK(std::abs(double{ours[d]} - expected[d]) < kTolerance);
    }
  }
}

}  // namespace

TEST_CASE("attention is softmax(q k) v for every head size and grouping", "[attention]") {
  check_against_doubles({9, 3, 64}, 16, 200);
  check_against_doubles({5, 5, 80}, 16, 70);
  check_against_doubles({7, 1, 96}, 32, 70);
  check_against_doubles({8, 2, 128}, 16, 129);
  check_against_doubles({2, 1, 256}, 16, 40);
  check_against_doubles({4, 2, 512}, 16, 40);
  check_against_doubles({9, 1, 576}, 16, 70);
  check_against_doubles({3, 1, 20}, 16, 40);   // a head's last lanes are not full
  check_against_doubles({100, 1, 16}, 16, 9);  // more heads share keys than a tile has rows
}

TEST_CASE("attention works with any block size and length", "[attention]") {
  for (int block_tokens : {1, 5, 16, 24, 32, 64, 100}) check_against_doubles({2, 1, 32}, block_tokens, 131);
  for (int length : {1, 2, 15, 16, 17, 63, 64, 65, 256, 257, 600})
    check_against_doubles({2, 1, 32}, 16, length);
}

TEST_CASE("attention gives a token the same bits in any batch, slicing and thread count", "[attention]") {
  check_batches({6, 2, 24}, {}, {1, 2, 3, 5});
}

TEST_CASE("attention handles contexts with more slices than it keeps results for", "[attention]") {
  check_long_context({});
}

TEST_CASE("attention sees the positions of its window only", "[attention]") {
  // One key, less than a tile, tiles and slices with and without a remainder, almost all and more than all of
  // the context.
  for (int window : {1, 2, 15, 16, 17, 63, 64, 65, 100, 255, 256, 257, 300, 511, 599, 600, 1000})
    check_against_doubles({2, 1, 16}, 16, 600, {window});
  for (int block_tokens : {1, 5, 24, 32, 64, 100}) {
    for (int window : {1, 40, 70}) check_against_doubles({2, 1, 32}, block_tokens, 200, {window});
  }
  check_against_doubles({9, 3, 64}, 16, 330, {70});
  check_against_doubles({100, 1, 16}, 16, 90, {20});
  check_against_doubles({3, 1, 20}, 16, 330, {130});
}

TEST_CASE("attention with a sink gives each head's softmax one more term", "[attention]") {
  check_against_doubles({9, 3, 64}, 16, 300, {.sinks = kSinks});
  check_against_doubles({5, 5, 20}, 16, 70, {.sinks = kSinks});
  // A sink far above all scores leaves nothing of the values, and one of -infinity changes nothing.
  const Heads heads{2, 1, 32};
  for (Isa isa : supported_isas()) {
    const std::unique_ptr<CpuBackend> backend = make_backend(heads, 1, isa, 300);
    Sequences sequences(heads, 16, {300});
    sequences.forget();
    const std::vector<float> without = sequences.step(*backend, {{0, 0, 300}});
    sequences.score_with({.sinks = {-INFINITY}});
    CHECK(same_bits(sequences.step(*backend, {{0, 0, 300}}), without));
    sequences.score_with({.sinks = {1e6f}});
    CHECK(same_bits(sequences.step(*backend, {{0, 0, 300}}), std::vector<float>(without.size(), 0.0f)));
  }
}

TEST_CASE("attention caps scores softly", "[attention]") {
  for (float cap : {0.5f, 5.0f, 30.0f, 50.0f, 1e4f})
    check_against_doubles({6, 2, 64}, 16, 130, {.soft_cap = cap});
  check_against_doubles({2, 1, 20}, 24, 70, {.soft_cap = 5.0f});
}

TEST_CASE("attention lowers scores by their distance, before and after the token", "[attention]") {
  const std::vector<float> slopes = {0.5f, 0.25f, 0.0625f, 0.00390625f};
  for (int length : {1, 2, 17, 63, 64, 65, 255, 257, 600}) {
    check_against_doubles({4, 4, 32}, 16, length, {.ahead = true, .slopes = slopes});
    check_against_doubles({4, 2, 32}, 16, length, {.slopes = slopes});
  }
  check_against_doubles({12, 12, 64}, 5, 330, {.ahead = true, .slopes = slopes});
  check_against_doubles({100, 1, 16}, 5, 9, {.ahead = true, .slopes = slopes});
  check_against_doubles({6, 2, 20}, 16, 330,
                        {.window = 40, .soft_cap = 8.0f, .sinks = kSinks, .ahead = true, .slopes = slopes});
  check_batches({6, 2, 24}, {.slopes = slopes}, {1, 3});
}

TEST_CASE("attention sees the positions of its section only", "[attention]") {
  for (int section : {1, 2, 15, 16, 17, 63, 64, 100, 256, 257, 599, 600, 1000})
    check_against_doubles({2, 1, 16}, 16, 600, {.window = section, .sectioned = true});
  for (int section : {1, 64, 90, 257, 599})
    check_batches({6, 2, 24}, {.window = section, .sectioned = true}, {1, 3});
  for (int section : {4096, 8192}) check_long_context({.window = section, .sectioned = true});
}

TEST_CASE("attention takes windows, caps and sinks together, for every head size and grouping",
          "[attention]") {
  struct Case {
    Heads heads;
    int length, window;
  };
  for (const Case& c :
       {Case{{9, 3, 64}, 330, 50}, Case{{6, 2, 64}, 330, 290}, Case{{8, 1, 80}, 100, 1},
        Case{{2, 2, 96}, 300, 260}, Case{{8, 2, 128}, 140, 70}, Case{{4, 2, 256}, 100, 33},
        Case{{2, 1, 512}, 280, 200}, Case{{9, 1, 576}, 100, 40}, Case{{3, 1, 20}, 330, 130}}) {
    check_against_doubles(c.heads, 16, c.length, {c.window, 20.0f, kSinks});
  }
}

TEST_CASE("attention with windows, caps and sinks gives a token the same bits in any batch", "[attention]") {
  for (int window : {1, 64, 90, 257, 599}) check_batches({6, 2, 24}, {window}, {1, 3});
  check_batches({5, 5, 24}, {.soft_cap = 8.0f, .sinks = kSinks}, {1, 3});
  check_batches({6, 1, 24}, {300, 8.0f, kSinks}, {1, 3});
}

TEST_CASE("attention is right for windows that end where slices become longer", "[attention]") {
  // A window has slices of 512 from 7680 on, and the whole context from 8193 on.
  for (int window : {7679, 7680, 8191, 8200}) check_long_context({window});
  check_long_context({5000, 8.0f, kSinks});
}

TEST_CASE("attention with a window that hides nothing has the bits of no window", "[attention]") {
  const Heads heads{6, 2, 24};
  for (Isa isa : supported_isas()) {
    const std::unique_ptr<CpuBackend> backend = make_backend(heads, 2, isa, 600);
    Sequences sequences(heads, 16, {600});
    sequences.forget();
    const std::vector<float> whole = sequences.step(*backend, {{0, 0, 600}});
    for (int window : {600, 601, 1 << 30}) {
      sequences.score_with({window});
      CHECK(same_bits(sequences.step(*backend, {{0, 0, 600}}), whole));
    }
  }
}

TEST_CASE("attention of tokens that see later ones is softmax(q k) v", "[attention]") {
  for (int length : {1, 2, 17, 63, 64, 65, 255, 256, 257, 512, 600})
    check_against_doubles({2, 1, 32}, 16, length, {.ahead = true});
  check_against_doubles({12, 12, 64}, 16, 130, {.ahead = true});
  check_against_doubles({9, 3, 64}, 32, 300, {.ahead = true});
  check_against_doubles({100, 1, 16}, 5, 9, {.ahead = true});
  check_against_doubles({6, 2, 20}, 16, 330, {.soft_cap = 8.0f, .sinks = kSinks, .ahead = true});
  for (const int window : {1, 2, 9, 65, 300})
    check_against_doubles({4, 2, 32}, 16, 700, {.window = window, .ahead = true});
  check_against_doubles({6, 2, 20}, 5, 330, {.window = 40, .soft_cap = 8.0f, .sinks = kSinks, .ahead = true});
}

TEST_CASE("attention of tokens that see later ones gives the same bits in any batch", "[attention]") {
  const Heads heads{6, 2, 24};
  for (const Scoring& scoring :
       {Scoring{.ahead = true}, Scoring{.soft_cap = 8.0f, .sinks = kSinks, .ahead = true},
        Scoring{.window = 30, .ahead = true}, Scoring{.ahead = true, .slopes = {0.5f, 0.03f, 0.001f}},
        Scoring{.window = 300, .soft_cap = 8.0f, .ahead = true}}) {
    for (Isa isa : testing::model_isas()) {
      Sequences sequences(heads, 16, {600, 100, 3, 64});
      sequences.score_with(scoring);
      sequences.forget();
      const std::unique_ptr<CpuBackend> one = make_backend(heads, 1, isa, 600);
      const std::vector<float> whole = sequences.step(*one, {{0, 0, 600}});
      INFO(isa_name(isa) << ", " << scoring.text());
      for (int n_threads : {1, 3}) {
        const std::unique_ptr<CpuBackend> backend = make_backend(heads, n_threads, isa, 600);
        sequences.forget();
        // Beside other sequences, and, now that all keys are stored, with queries in steps of all sizes.
        const std::vector<float> among =
            sequences.step(*backend, {{2, 0, 3}, {0, 0, 600}, {1, 0, 100}, {3, 0, 64}});
        const auto begin = among.begin() + 3 * sequences.token_floats();
        CHECK(same_bits({begin, begin + 600 * sequences.token_floats()}, whole));
        std::vector<float> pieces;
        for (int from = 0, size = 1; from < 600; from += size, size = size % 9 + 1) {
          const std::vector<float> out = sequences.step(*backend, {{0, from, std::min(600, from + size)}});
          pieces.insert(pieces.end(), out.begin(), out.end());
        }
        CHECK(same_bits(pieces, whole));
      }
    }
  }
}

TEST_CASE("attention multiplies queries by a factor of their positions", "[attention]") {
  const Scoring growing{.growth = {1.0f, 1.07f, 1.11f, 0.25f, 2.0f, 1.5f}, .growth_span = 100};
  check_against_doubles({9, 3, 64}, 16, 330, growing);
  check_against_doubles({2, 1, 20}, 16, 600, growing);
  check_batches({6, 2, 24}, growing, {1, 3});
  Scoring with_window = growing;
  with_window.window = 90;
  check_batches({6, 1, 24}, with_window, {1, 3});
}

TEST_CASE("attention reads nothing that its window hides", "[attention]") {
  const KvType type = GENERATE(KvType::kF16, KvType::kQ8);
  const Heads heads{6, 2, type == KvType::kQ8 ? 32 : 24};
  for (Isa isa : supported_isas()) {
    for (int block_tokens : {16, 32, 5}) {
      for (int window : {1, 16, 30, 100, 260}) {
        const std::unique_ptr<CpuBackend> backend = make_backend(heads, 3, isa, 600);
        for (int n_tokens : {1, 5, 70}) {
          Sequences sequences(heads, block_tokens, {600}, type);
          sequences.score_with({window, 8.0f, kSinks});
          sequences.forget();
          sequences.step(*backend, {{0, 0, 600}}, /*attend=*/false);
          const std::vector<float> expected = sequences.step(*backend, {{0, 600 - n_tokens, 600}});
          sequences.hide_before(0, 600 - n_tokens + 1 - window);
          INFO(isa_name(isa) << ", window " << window << ", " << n_tokens << " tokens, blocks of "
                             << block_tokens);
          CHECK(same_bits(sequences.step(*backend, {{0, 600 - n_tokens, 600}}), expected));
        }
      }
    }
  }
}

TEST_CASE("attention over 8-bit keys and values is softmax(q k) v for every head size and grouping",
          "[attention]") {
  const Scoring plain{.type = KvType::kQ8};
  for (const Heads& heads :
       {Heads{9, 3, 64}, Heads{5, 5, 32}, Heads{7, 1, 96}, Heads{8, 2, 128}, Heads{2, 1, 160},
        Heads{2, 1, 256}, Heads{4, 2, 512}, Heads{9, 1, 576}, Heads{100, 1, 32}}) {
    check_against_doubles(heads, 16, heads.head_dim > 128 ? 70 : 330, plain);
    check_against_doubles(heads, 16, 100,
                          {.window = 40, .soft_cap = 20.0f, .sinks = kSinks, .type = KvType::kQ8});
  }
  for (int block_tokens : {1, 5, 16, 24, 32, 64, 100})
    check_against_doubles({2, 1, 64}, block_tokens, 131, plain);
  for (int length : {1, 2, 15, 16, 17, 63, 64, 65, 256, 257, 600})
    check_against_doubles({2, 1, 32}, 16, length, plain);
  check_against_doubles({12, 12, 64}, 16, 130, {.ahead = true, .type = KvType::kQ8});
}

TEST_CASE("attention over 8-bit keys and values gives a token the same bits in any batch", "[attention]") {
  check_batches({6, 2, 32}, {.type = KvType::kQ8}, {1, 2, 3, 5});
  check_batches({6, 1, 64}, {.window = 300, .soft_cap = 8.0f, .sinks = kSinks, .type = KvType::kQ8}, {1, 3});
  check_long_context({.type = KvType::kQ8}, 32);
  check_long_context({.window = 5000, .soft_cap = 8.0f, .sinks = kSinks, .type = KvType::kQ8}, 32);
}

TEST_CASE("attention passes on 8-bit keys and values that are not numbers", "[attention]") {
  constexpr int kHeadDim = 64;
  for (Isa isa : supported_isas()) {
    CpuBackend backend(1, isa);
    backend.reserve({8, kHeadDim, 1, 16});
    for (const float bad : {NAN, INFINITY, -INFINITY, 1e30f}) {
      for (const bool in_key : {true, false}) {
        const KvShape shape{1, kHeadDim, 16, 1, KvType::kQ8};
        std::vector<uint16_t> k_cache(static_cast<size_t>(shape.block_bytes()) / 2), v_cache(k_cache.size());
        std::vector<float> k(8 * kHeadDim, 0.5f), v(k.size(), 0.25f), out(k.size());
        (in_key ? k : v)[5 * kHeadDim + 40] = bad;
        const std::vector<int32_t> positions = {0, 1, 2, 3, 4, 5, 6, 7}, tables(8, 0);
        const KvPlaces places{8, positions.data(), tables.data(), tables.data(), 1};
        const KvLayer layer{k_cache.data(), v_cache.data()};
        backend.kv_append(k.data(), v.data(), kHeadDim, places, shape, layer);
        backend.attention(k.data(), kHeadDim, 1, {.scale = 0.125f}, places, shape, layer, out.data());
        INFO(isa_name(isa) << ", " << bad << (in_key ? " in a key" : " in a value"));
        for (int t = 0; t < 8; ++t) {
          // A NaN in a key spoils the whole output of a token that sees it; one in a value spoils the 32
          // dimensions that share its scale. A query equal to the key is spoiled too.
          for (int d = 0; d < kHeadDim; ++d) {
            const bool spoiled = t >= 5 && (in_key || d >= 32);
            CHECK(std::isnan(out[static_cast<size_t>(t * kHeadDim + d)]) == spoiled);
          }
        }
      }
    }
  }
}

}  // namespace hearth
