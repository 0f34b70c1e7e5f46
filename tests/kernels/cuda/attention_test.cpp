// The cache and attention on the device: they give the CPU backend's bits.
#include <algorithm>
#include <random>

#include "kernels/cpu/cpu_backend.h"
#include "kernels/cuda/ops/ops.h"
#include "kernels/quant/half.h"
#include "tests/kernels/cuda/bits.h"
#include "tests/kernels/cuda/device_array.h"
#include "tests/kernels/cuda/quantized_output.h"
#include "tests/support/catch.h"
#include "tests/support/reference_ops.h"

namespace hearth::test {
namespace {

struct Heads {
  int n_heads;
  int n_kv_heads;
  int head_dim;
};

/// A token of a step.
struct Token {
  int sequence;
  int position;
};

std::vector<Token> run(int sequence, int begin, int end) {
  std::vector<Token> tokens;
  for (int p = begin; p < end; ++p) tokens.push_back({sequence, p});
  return tokens;
}
std::vector<Token> operator+(std::vector<Token> a, const std::vector<Token>& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

std::vector<float> normal_numbers(size_t n, float deviation, std::mt19937& random) {
  std::normal_distribution<float> normal(0.0f, deviation);
  std::vector<float> out(n);
  for (float& x : out) x = normal(random);
  return out;
}

/// One layer's cache for sequences of random keys and values, in shuffled blocks. Positions without a token
/// hold what must not be read: NaN keys, infinite values, and invalid block numbers.
class Cache {
 public:
  static constexpr int kBlockTokens = 16;

  Cache(Heads heads, const std::vector<int>& lengths, unsigned seed = 1, KvType type = KvType::kF16)
      : heads_(heads), lengths_(lengths), random_(seed) {
    for (int length : lengths)
      max_blocks_ = std::max(max_blocks_, (length + kBlockTokens - 1) / kBlockTokens);
    const size_t n_blocks = static_cast<size_t>(max_blocks_) * lengths.size();
    shape_ = {heads.n_kv_heads, heads.head_dim, kBlockTokens, static_cast<int>(n_blocks), type};
    std::vector<int32_t> blocks(n_blocks);
    for (size_t b = 0; b < n_blocks; ++b) blocks[b] = static_cast<int32_t>(b);
    std::shuffle(blocks.begin(), blocks.end(), random_);
    tables_.assign(n_blocks, 0x7fffffff);
    const size_t block_halves = static_cast<size_t>(shape_.block_bytes()) / 2;
    k.assign(n_blocks * block_halves, 0x7e00);
    v.assign(n_blocks * block_halves, 0x7c00);
    for (size_t s = 0; s < lengths.size(); ++s) {
      for (int p = 0; p < lengths[s]; ++p) {
        const size_t at = s * static_cast<size_t>(max_blocks_) + static_cast<size_t>(p / kBlockTokens);
        tables_[at] = blocks[at];
        for (int head = 0; head < heads.n_kv_heads; ++head) fill(static_cast<int>(s), p, head);
      }
    }
  }

  size_t key_at(int sequence, int position, int head, int d) const {
    return (row_at(sequence, position, head) + static_cast<size_t>(d)) * kBlockTokens +
           static_cast<size_t>(position % kBlockTokens);
  }
  size_t value_at(int sequence, int position, int head, int d) const {
    return row_at(sequence, position, head) * kBlockTokens +
           static_cast<size_t>(position % kBlockTokens * heads_.head_dim + d);
  }
  /// With KvType::kQ8: the index, in halves, of the scale of a dimension of a key or value.
  size_t key_scale_at(int sequence, int position, int head, int d) const {
    const int group = head * heads_.head_dim / kKvGroup + d / kKvGroup;
    return scales_at(sequence, position) +
           static_cast<size_t>(group * kBlockTokens + position % kBlockTokens);
  }
  size_t value_scale_at(int sequence, int position, int head, int d) const {
    const int row = head * kBlockTokens + position % kBlockTokens;
    return scales_at(sequence, position) +
           static_cast<size_t>(row * heads_.head_dim / kKvGroup + d / kKvGroup);
  }

  const Heads& heads() const { return heads_; }
  int length(int sequence) const { return lengths_[static_cast<size_t>(sequence)]; }
  const KvShape& shape() const { return shape_; }
  const std::vector<int32_t>& tables() const { return tables_; }
  int max_blocks() const { return max_blocks_; }

  /// Spoils the positions before this one, as the constructor spoils positions without a token.
  void hide_before(int sequence, int position) {
    for (int p = 0; p < position; ++p) {
      for (int head = 0; head < heads_.n_kv_heads; ++head) {
        for (int d = 0; d < heads_.head_dim; ++d) {
          const bool scaled = shape_.type == KvType::kQ8;
          k[scaled ? key_scale_at(sequence, p, head, d) : key_at(sequence, p, head, d)] = 0x7e00;
          v[scaled ? value_scale_at(sequence, p, head, d) : value_at(sequence, p, head, d)] = 0x7c00;
        }
      }
      if (p % kBlockTokens == kBlockTokens - 1)
        tables_[static_cast<size_t>(sequence * max_blocks_ + p / kBlockTokens)] = 0x7fffffff;
    }
  }
  std::mt19937& random() { return random_; }

  std::vector<uint16_t> k, v;

 private:
  /// Gives a position's key and value random numbers.
  void fill(int sequence, int position, int head) {
    std::normal_distribution<float> normal(0.0f, 1.5f);
    if (shape_.type == KvType::kF16) {
      for (int d = 0; d < heads_.head_dim; ++d) {
        k[key_at(sequence, position, head, d)] = half_from_float(normal(random_));
        v[value_at(sequence, position, head, d)] = half_from_float(normal(random_));
      }
      return;
    }
    std::uniform_int_distribution<int> whole(-127, 127);
    const size_t skipped = block_of(sequence, position) * static_cast<size_t>(shape_.block_bytes());
    // key_at() and value_at() count numbers from the first KV block on, without scales.
    const size_t numbers = block_of(sequence, position) * static_cast<size_t>(shape_.block_numbers());
    auto* const keys = reinterpret_cast<int8_t*>(k.data());
    auto* const values = reinterpret_cast<int8_t*>(v.data());
    for (int d = 0; d < heads_.head_dim; ++d) {
      keys[skipped + key_at(sequence, position, head, d) - numbers] = static_cast<int8_t>(whole(random_));
      values[skipped + value_at(sequence, position, head, d) - numbers] = static_cast<int8_t>(whole(random_));
      if (d % kKvGroup != 0) continue;
      k[key_scale_at(sequence, position, head, d)] = half_from_float(0.02f * std::abs(normal(random_)));
      v[value_scale_at(sequence, position, head, d)] = half_from_float(0.02f * std::abs(normal(random_)));
    }
  }
  size_t block_of(int sequence, int position) const {
    return static_cast<size_t>(
        tables_[static_cast<size_t>(sequence * max_blocks_ + position / kBlockTokens)]);
  }
  size_t scales_at(int sequence, int position) const {
    return (block_of(sequence, position) * static_cast<size_t>(shape_.block_bytes()) +
            static_cast<size_t>(shape_.block_numbers())) /
           2;
  }
  /// The row of a position in its block's head, in units of block_tokens.
  size_t row_at(int sequence, int position, int head) const {
    return (block_of(sequence, position) * static_cast<size_t>(heads_.n_kv_heads) +
            static_cast<size_t>(head)) *
           static_cast<size_t>(heads_.head_dim);
  }

  Heads heads_;
  std::vector<int> lengths_;
  KvShape shape_;
  int max_blocks_ = 0;
  std::mt19937 random_;
  std::vector<int32_t> tables_;
};

/// The places of a step's tokens, on the host and on the device. ahead: each token sees its whole sequence.
class Places {
 public:
  Places(const Cache& cache, const std::vector<Token>& tokens, bool ahead = false)
      : ahead_(ahead),
        positions_(each(tokens, &Token::position)),
        table_of_(each(tokens, &Token::sequence)),
        n_seen_(ends(cache, tokens)),
        tables_(cache.tables()),
        max_blocks_(cache.max_blocks()),
        device_positions_(positions_),
        device_table_of_(table_of_),
        device_n_seen_(n_seen_),
        device_tables_(tables_) {}
  KvPlaces here() const {
    return {n(),
            positions_.data(),
            table_of_.data(),
            tables_.data(),
            max_blocks_,
            ahead_ ? n_seen_.data() : nullptr};
  }
  KvPlaces there() const {
    return {n(),
            device_positions_.data(),
            device_table_of_.data(),
            device_tables_.data(),
            max_blocks_,
            ahead_ ? device_n_seen_.data() : nullptr};
  }
  int longest() const {
    int keys = 0;
    for (int t = 0; t < n(); ++t) keys = std::max(keys, here().n_keys(t));
    return keys;
  }

 private:
  static std::vector<int32_t> ends(const Cache& cache, const std::vector<Token>& tokens) {
    std::vector<int32_t> out;
    for (const Token& token : tokens) out.push_back(cache.length(token.sequence));
    return out;
  }
  static std::vector<int32_t> each(const std::vector<Token>& tokens, int Token::*member) {
    std::vector<int32_t> out;
    for (const Token& token : tokens) out.push_back(token.*member);
    return out;
  }
  int n() const { return static_cast<int>(positions_.size()); }

  bool ahead_;
  std::vector<int32_t> positions_, table_of_, n_seen_, tables_;
  int max_blocks_;
  DeviceArray<int32_t> device_positions_, device_table_of_, device_n_seen_, device_tables_;
};

/// AttentionScores without the scale; whether each head has a sink.
struct Scoring {
  int window = 0;
  float soft_cap = 0.0f;
  bool sinks = false;
  bool ahead = false;      // a token sees its whole sequence
  bool grows = false;      // queries grow with their position
  bool sectioned = false;  // the window is a section, and queries grow one position earlier
};
constexpr int kGrowthSpan = 50;

/// All combinations with this window.
std::vector<Scoring> scorings(int window) {
  return {{window}, {window, 0.0f, true}, {window, 8.0f}, {window, 8.0f, true}};
}

/// The queries of a step, with a few floats between the rows, and how they are scored.
struct Queries {
  Queries(Cache& cache, size_t n_tokens, const Scoring& how = {})
      : stride(int64_t{cache.heads().n_heads} * cache.heads().head_dim + 4),
        scale(1.0f / std::sqrt(static_cast<float>(cache.heads().head_dim))),
        q(normal_numbers(n_tokens * static_cast<size_t>(stride), 1.5f, cache.random())),
        scoring(how) {
    // Sinks far below the keys' scores, among them, and far above.
    if (scoring.sinks)
      sinks = normal_numbers(static_cast<size_t>(cache.heads().n_heads), 8.0f, cache.random());
    for (int i = 0; scoring.grows && i < 25; ++i) growth.push_back(1.0f + 0.13f * static_cast<float>(i % 7));
  }
  /// sinks_there, growth_there: copies of `sinks` and `growth` in the backend's memory.
  AttentionScores scores(const float* sinks_there, const float* growth_there) const {
    return {scale,
            scoring.window,
            scoring.soft_cap,
            scoring.sinks ? sinks_there : nullptr,
            scoring.grows ? growth_there : nullptr,
            kGrowthSpan,
            scoring.sectioned ? 1 : 0,
            scoring.sectioned};
  }
  int64_t stride;
  float scale;
  std::vector<float> q;
  Scoring scoring;
  std::vector<float> sinks, growth;
};

/// longest: the value given to attention(); 0: the true one.
std::vector<float> attention_on_device(const Cache& cache, const Queries& queries, const Places& places,
                                       int longest = 0) {
  const Heads& heads = cache.heads();
  const int n_tokens = places.here().n_tokens;
  if (longest == 0) longest = places.longest();
  const TestStream stream;
  const DeviceArray<float> q(queries.q), sinks(queries.sinks), growth(queries.growth);
  const DeviceArray<uint16_t> k(cache.k), v(cache.v);
  const DeviceArray<std::byte> scratch(std::vector<std::byte>(
      cuda::attention_scratch_bytes(n_tokens, heads.n_heads, heads.head_dim, longest)));
  const int64_t n = int64_t{n_tokens} * heads.n_heads * heads.head_dim;
  const DeviceArray<float> out(static_cast<size_t>(n));
  const bool quantizes = n_tokens > 0 && n_tokens <= cuda::kSplitTokens && heads.head_dim % 32 == 0;
  const QuantizedOutput quantized(quantizes ? n : 0);
  cuda::attention(q.data(), queries.stride, heads.n_heads, queries.scores(sinks.data(), growth.data()),
                  places.there(), cache.shape(), {k.data(), v.data()}, longest, scratch.data(), out.data(),
                  stream, quantizes ? quantized.view() : cuda::QuantizedActivations{});
  if (quantizes) CHECK(quantized.is_of(out.data(), stream));
  return out.read(stream);
}

std::vector<float> attention_on_cpu(Cache& cache, const Queries& queries, const Places& places, Isa isa) {
  const Heads& heads = cache.heads();
  const int n_tokens = places.here().n_tokens;
  CpuBackend backend(1, isa);
  backend.reserve(
      {std::max(1, n_tokens), heads.n_heads * heads.head_dim, heads.n_heads, std::max(1, places.longest())});
  std::vector<float> out(static_cast<size_t>(n_tokens * heads.n_heads * heads.head_dim));
  backend.attention(queries.q.data(), queries.stride, heads.n_heads,
                    queries.scores(queries.sinks.data(), queries.growth.data()), places.here(), cache.shape(),
                    {cache.k.data(), cache.v.data()}, out.data());
  return out;
}

void check_attention(Cache& cache, const std::vector<Token>& tokens, const Scoring& scoring = {}) {
  const std::optional<Isa> isa = fused_isa();
  if (!isa) return;
  const Places places(cache, tokens, scoring.ahead);
  const Queries queries(cache, tokens.size(), scoring);
  INFO(kv_type_name(cache.shape().type)
       << ", " << cache.heads().n_heads << "/" << cache.heads().n_kv_heads << " heads of "
       << cache.heads().head_dim << ", " << tokens.size() << " tokens, up to " << places.longest()
       << " keys, window " << scoring.window << ", cap " << scoring.soft_cap
       << (scoring.sinks ? ", sinks" : "") << (scoring.ahead ? ", ahead" : "")
       << (scoring.grows ? ", growing" : ""));
  REQUIRE(different(attention_on_device(cache, queries, places),
                    attention_on_cpu(cache, queries, places, *isa)) == 0);
}

/// Every size and grouping that the kernels treat differently: rows of 1, 2, 4 and 8 heads, parts of larger
/// groups, each number of dimensions per lane, heads that no vector load fits, heads too long for tiles.
const std::vector<Heads> kAllHeads = {{2, 2, 64},  {4, 2, 32},  {9, 3, 64},  {5, 5, 80},  {7, 1, 96},
                                      {8, 2, 128}, {8, 1, 128}, {4, 2, 256}, {3, 1, 160}, {12, 1, 64},
                                      {20, 1, 16}, {2, 1, 20},  {3, 1, 50},  {2, 1, 66},  {2, 1, 130},
                                      {1, 1, 257}, {2, 1, 512}, {9, 1, 576}, {3, 1, 768}};

}  // namespace

TEST_CASE("CUDA: attention of single tokens has the CPU's bits at every context length") {
  Cache cache({4, 2, 32}, {1100, 40});
  for (int n_keys : {1, 2, 15, 16, 17, 63, 64, 65, 127, 128, 255, 256, 257, 300, 511, 512, 513, 1030, 1100})
    check_attention(cache, run(0, n_keys - 1, n_keys));
  check_attention(cache, {});
}

TEST_CASE("CUDA: attention of single tokens has the CPU's bits for every size and grouping of heads") {
  for (const Heads& heads : kAllHeads) {
    Cache cache(heads, {300, 40, 100});
    check_attention(cache, run(0, 299, 300) + run(1, 30, 40) + run(2, 98, 100));
  }
}

TEST_CASE("CUDA: attention of prompts has the CPU's bits for every size and grouping of heads") {
  for (const Heads& heads : kAllHeads) {
    Cache cache(heads, {300, 40});
    check_attention(cache, run(0, 260, 300) + run(1, 0, 40));
  }
}

TEST_CASE("CUDA: attention of a whole prompt has the CPU's bits") {
  Cache cache({2, 1, 32}, {600});
  check_attention(cache, run(0, 0, 600));
}

TEST_CASE("CUDA: attention of mixed steps has the CPU's bits") {
  Cache cache({4, 2, 32}, {700, 1, 300, 40, 100, 270}, 2);
  // Decoding between prompts, tokens alone in their sequence, and runs that end within a tile.
  check_attention(cache, run(1, 0, 1) + run(0, 640, 663) + run(2, 299, 300) + run(3, 0, 40) +
                             run(4, 99, 100) + run(5, 200, 202) + run(2, 17, 18) + run(5, 260, 267));
  // Adjacent tokens of the step that are not adjacent in a sequence: the next token is at a distant position
  // of the same sequence, or at the next position of another sequence.
  check_attention(cache, run(0, 400, 402) + run(0, 100, 103) + run(0, 401, 403) + run(4, 20, 23) +
                             run(5, 23, 26) + run(0, 26, 27) + run(2, 27, 60));
  // More sequences than are cut by slices, all decoding.
  std::vector<Token> decoding;
  for (int i = 0; i < 40; ++i) decoding.push_back({i % 2 == 0 ? 0 : 5, 30 + 6 * i});
  check_attention(cache, decoding);
  decoding.resize(20);
  check_attention(cache, decoding);
}

TEST_CASE("CUDA: attention has the CPU's bits where slices become longer") {
  Cache cache({2, 1, 16}, {8230});
  // 8192 keys are 32 slices, 8193 are 17: in the middle of a tile
  check_attention(cache, run(0, 8178, 8216));
  check_attention(cache, run(0, 8190, 8194));
  check_attention(cache, {{0, 8191}, {0, 8190}, {0, 8192}});
}

TEST_CASE("CUDA: attention of single tokens with windows, caps and sinks has the CPU's bits") {
  Cache cache({4, 2, 32}, {1100, 40});
  for (int window : {1, 2, 16, 17, 63, 64, 65, 255, 256, 257, 300, 512, 1000, 1100, 2000}) {
    for (int n_keys : {1, 16, 64, 65, 257, 600, 1100}) {
      check_attention(cache, run(0, n_keys - 1, n_keys), {window});
      check_attention(cache, run(0, n_keys - 1, n_keys),
                      {.window = window, .grows = true, .sectioned = true});
    }
  }
  for (int window : {0, 20, 300}) {
    for (const Scoring& scoring : scorings(window)) {
      check_attention(cache, run(0, 1099, 1100), scoring);
      check_attention(cache, run(0, 0, 1), scoring);
      check_attention(cache, run(0, 507, 517) + run(1, 30, 40) + run(0, 200, 201), scoring);
    }
  }
}

TEST_CASE("CUDA: attention of prompts with windows, caps and sinks has the CPU's bits") {
  Cache cache({4, 2, 32}, {600, 300, 100, 270}, 2);
  // Windows that begin and end in every way within a tile's rows, a tile of keys and a slice.
  for (int window : {1, 2, 7, 16, 40, 63, 64, 65, 100, 200, 256, 257, 300, 511, 599, 600, 1000}) {
    check_attention(cache, run(0, 500, 567), {window});
    check_attention(cache, run(0, 500, 567), {.window = window, .grows = true, .sectioned = true});
    check_attention(cache, run(0, 240, 280) + run(1, 0, 9), {window});
  }
  for (int window : {0, 20, 130, 300}) {
    for (const Scoring& scoring : scorings(window)) {
      check_attention(cache,
                      run(1, 0, 1) + run(0, 530, 563) + run(1, 299, 300) + run(2, 0, 40) + run(2, 99, 100) +
                          run(3, 200, 202) + run(1, 17, 18) + run(3, 260, 267),
                      scoring);
    }
  }
  check_attention(cache, run(0, 0, 600), {90, 8.0f, true});
}

TEST_CASE("CUDA: attention of tokens that see later ones has the CPU's bits") {
  for (const Heads& heads : kAllHeads) {
    Cache cache(heads, {300, 40, 3});
    check_attention(cache, run(0, 260, 300) + run(1, 0, 40) + run(2, 0, 3), {.ahead = true});
    check_attention(cache, run(1, 3, 9) + run(2, 0, 3) + run(0, 299, 300), {.ahead = true});
  }
  Cache cache({4, 2, 32}, {600, 1, 257, 64});
  check_attention(cache, run(1, 0, 1) + run(2, 0, 257) + run(3, 0, 64), {.ahead = true});
  check_attention(cache, run(0, 480, 600), {0, 8.0f, true, true});
  Cache long_text({2, 1, 16}, {8230});
  check_attention(long_text, run(0, 100, 150) + run(0, 8190, 8200), {.ahead = true});
}

TEST_CASE("CUDA: attention of growing queries has the CPU's bits") {
  for (const Heads& heads : kAllHeads) {
    Cache cache(heads, {300, 60});
    check_attention(cache, run(0, 260, 300) + run(1, 0, 40), {.grows = true});
    check_attention(cache, run(0, 247, 253) + run(1, 49, 52), {.grows = true});
  }
  Cache cache({4, 2, 32}, {1100});
  check_attention(cache, run(0, 900, 1100), {90, 8.0f, true, false, true});
}

TEST_CASE("CUDA: attention with windows, caps and sinks has the CPU's bits for every size of heads") {
  for (const Heads& heads : kAllHeads) {
    Cache cache(heads, {300, 40});
    check_attention(cache, run(0, 297, 300) + run(1, 39, 40), {70, 8.0f, true});
    check_attention(cache, run(0, 264, 300) + run(1, 0, 3), {50, 8.0f, true});
  }
}

TEST_CASE("CUDA: attention with windows has the CPU's bits where slices become longer") {
  Cache cache({2, 1, 16}, {8230});
  for (int window : {5000, 7679, 7680, 8191, 8192, 8200}) {
    check_attention(cache, run(0, 8178, 8216), {window});
    check_attention(cache, run(0, 8190, 8194), {window});
  }
}

TEST_CASE("CUDA: attention reads nothing that its window hides") {
  for (int window : {1, 16, 30, 100, 260}) {
    for (int n_tokens : {1, 5, 40}) {
      for (int head_dim : {32, 260}) {
        Cache cache({4, 2, head_dim}, {300});
        cache.hide_before(0, 300 - n_tokens + 1 - window);
        check_attention(cache, run(0, 300 - n_tokens, 300), {window, 8.0f, true});
      }
    }
  }
}

TEST_CASE("CUDA: attention's bits do not depend on how long a context it is prepared for") {
  Cache cache({4, 2, 32}, {1100, 40, 260});
  for (const auto& tokens : {run(0, 0, 1), run(0, 255, 256), run(0, 256, 257), run(0, 511, 513),
                             run(0, 1099, 1100), run(0, 700, 701) + run(1, 39, 40) + run(2, 250, 260)}) {
    const Places places(cache, tokens);
    for (const Scoring& scoring : {Scoring{}, Scoring{300, 8.0f, true}}) {
      const Queries queries(cache, tokens.size(), scoring);
      const std::vector<float> expected = attention_on_device(cache, queries, places);
      for (int longest : {256, 512, 1024, 2048, 16384, 40000}) {
        if (longest < places.longest()) continue;
        INFO(places.longest() << " keys, prepared for " << longest << ", window " << scoring.window);
        REQUIRE(different(attention_on_device(cache, queries, places, longest), expected) == 0);
      }
    }
  }
}

TEST_CASE("CUDA: attention does not depend on the order of the emulator's threads") {
  for_each_schedule([] {
    Cache cache({4, 2, 32}, {330, 40});
    check_attention(cache, run(0, 318, 322));
    check_attention(cache, run(0, 290, 330) + run(1, 39, 40));
    check_attention(cache, run(0, 318, 322), {100, 8.0f, true});
    check_attention(cache, run(0, 290, 330) + run(1, 39, 40), {100, 8.0f, true});
  });
}

TEST_CASE("CUDA: attention passes on infinite values and NaN") {
  for (int n_tokens : {3, 40}) {
    Cache cache({4, 2, 32}, {300});
    cache.v[cache.value_at(0, 270, 0, 5)] = 0x7c00;
    cache.v[cache.value_at(0, 285, 1, 7)] = 0x7e00;
    cache.k[cache.key_at(0, 290, 0, 3)] = 0x7c00;
    check_attention(cache, run(0, 300 - n_tokens, 300));
    check_attention(cache, run(0, 295 - n_tokens, 295));
    for (int window : {5, 11, 16, 100})
      check_attention(cache, run(0, 300 - n_tokens, 300), {window, 0, true});
    check_attention(cache, run(0, 300 - n_tokens, 300), {40, 8.0f, true});
  }
}

TEST_CASE(
    "CUDA: attention over 8-bit keys and values has the CPU's bits for every size and grouping of heads") {
  for (const Heads& heads : kAllHeads) {
    if (heads.head_dim % kKvGroup != 0) continue;
    Cache cache(heads, {300, 40, 100}, 1, KvType::kQ8);
    check_attention(cache, run(0, 299, 300) + run(1, 30, 40) + run(2, 98, 100));
    check_attention(cache, run(0, 297, 300) + run(1, 39, 40), {70, 8.0f, true});
    check_attention(cache, run(0, 260, 300) + run(1, 0, 40));
    check_attention(cache, run(0, 264, 300) + run(1, 0, 3), {50, 8.0f, true});
  }
}

TEST_CASE("CUDA: attention over 8-bit keys and values has the CPU's bits at every length and in every step") {
  Cache cache({4, 2, 32}, {1100, 40, 300}, 1, KvType::kQ8);
  for (int n_keys : {1, 2, 15, 16, 17, 31, 32, 33, 63, 64, 65, 255, 256, 257, 513, 1100})
    check_attention(cache, run(0, n_keys - 1, n_keys));
  for (int window : {1, 17, 64, 65, 257, 300, 1000}) {
    for (int n_keys : {1, 64, 257, 600, 1100}) check_attention(cache, run(0, n_keys - 1, n_keys), {window});
    check_attention(cache, run(0, 500, 567), {window});
    check_attention(cache, run(0, 500, 567), {.window = window, .grows = true, .sectioned = true});
  }
  check_attention(cache, run(0, 0, 600));
  check_attention(cache, run(0, 640, 663) + run(2, 299, 300) + run(1, 0, 40) + run(2, 17, 18));
  check_attention(cache, run(0, 980, 1100) + run(1, 0, 40), {.ahead = true});
  check_attention(cache, run(0, 247, 253), {.grows = true});
  Cache long_text({2, 1, 32}, {8230}, 1, KvType::kQ8);
  check_attention(long_text, run(0, 8178, 8216));
  check_attention(long_text, run(0, 8190, 8194), {7680});
}

TEST_CASE("CUDA: attention reads no scales that its window hides") {
  for (int window : {1, 16, 30, 100, 260}) {
    for (int n_tokens : {1, 5, 40}) {
      for (int head_dim : {32, 512}) {
        Cache cache({4, 2, head_dim}, {300}, 1, KvType::kQ8);
        cache.hide_before(0, 300 - n_tokens + 1 - window);
        check_attention(cache, run(0, 300 - n_tokens, 300), {window, 8.0f, true});
      }
    }
  }
}

TEST_CASE(
    "CUDA: attention over 8-bit keys and values does not depend on the order of the emulator's threads") {
  for_each_schedule([] {
    Cache cache({4, 2, 64}, {330, 40}, 1, KvType::kQ8);
    check_attention(cache, run(0, 318, 322));
    check_attention(cache, run(0, 290, 330) + run(1, 39, 40), {100, 8.0f, true});
  });
}

TEST_CASE("CUDA: attention passes on scales that are infinite or not a number") {
  for (int n_tokens : {3, 40}) {
    Cache cache({4, 2, 64}, {300}, 1, KvType::kQ8);
    cache.v[cache.value_scale_at(0, 270, 0, 5)] = 0x7c00;
    cache.v[cache.value_scale_at(0, 285, 1, 40)] = kKvPoison;
    cache.k[cache.key_scale_at(0, 290, 0, 63)] = kKvPoison;
    check_attention(cache, run(0, 300 - n_tokens, 300));
    check_attention(cache, run(0, 295 - n_tokens, 295));
    check_attention(cache, run(0, 300 - n_tokens, 300), {11, 8.0f, true});
  }
}

TEST_CASE("CUDA: attention is softmax(q k) v") {
  // Keys and values are exact in half precision; only float arithmetic remains, as in the CPU's test.
  constexpr double kTolerance = 2e-5;
  const Heads heads{6, 2, 64};
  Cache cache(heads, {500});
  for (const std::vector<Token>& tokens : {run(0, 499, 500), run(0, 440, 500)}) {
    const Places places(cache, tokens);
    const Queries queries(cache, tokens.size());
    const std::vector<float> ours = attention_on_device(cache, queries, places);
    for (size_t t = 0; t < tokens.size(); t += 13) {
      for (int head = 0; head < heads.n_heads; ++head) {
        const int n_keys = tokens[t].position + 1;
        std::vector<std::vector<float>> rows;
        for (int p = 0; p < n_keys; ++p) {
          std::vector<float> key, value;
          for (int d = 0; d < heads.head_dim; ++d) {
            key.push_back(float_from_half(cache.k[cache.key_at(0, p, head / 3, d)]));
            value.push_back(float_from_half(cache.v[cache.value_at(0, p, head / 3, d)]));
          }
          rows.push_back(key);
          rows.push_back(value);
        }
        std::vector<const float*> keys, values;
        for (size_t p = 0; p < rows.size(); p += 2) {
          keys.push_back(rows[p].data());
          values.push_back(rows[p + 1].data());
        }
        const float* q = queries.q.data() + t * static_cast<size_t>(queries.stride) +
                         static_cast<size_t>(head * heads.head_dim);
        const std::vector<double> expected =
            testing::reference_attention(q, keys, values, heads.head_dim, double{queries.scale});
        const float* row =
            ours.data() + (t * 6 + static_cast<size_t>(head)) * static_cast<size_t>(heads.head_dim);
        for (size_t d = 0; d < expected.size(); ++d)
          REQUIRE(std::abs(double{row[d]} - expected[d]) < kTolerance);
      }
    }
  }
}

TEST_CASE("CUDA: attention uses all of its scratch and nothing beyond it") {
  const Heads heads{4, 2, 32};
  Cache cache(heads, {300});
  const std::vector<Token> tokens = run(0, 270, 300);
  const Places places(cache, tokens);
  const Queries queries(cache, tokens.size());
  const size_t bytes = cuda::attention_scratch_bytes(30, heads.n_heads, heads.head_dim, 300);
  const size_t counters = cuda::attention_counter_bytes(heads.n_heads);
  CHECK(bytes == counters + 30 * 4 * 2 * (32 + 2) * sizeof(float));
  const float mark = 12345.0f;
  std::vector<float> marks(bytes / sizeof(float) + 8, mark);
  std::fill_n(marks.begin(), counters / sizeof(float), 0.0f);
  const TestStream stream;
  const DeviceArray<float> q(queries.q), scratch(marks), out(size_t{30 * 4 * 32});
  const DeviceArray<uint16_t> k(cache.k), v(cache.v);
  cuda::attention(q.data(), queries.stride, heads.n_heads, queries.scores(nullptr, nullptr), places.there(),
                  cache.shape(), {k.data(), v.data()}, 300, scratch.data(), out.data(), stream);
  const std::vector<float> after = scratch.read(stream);
  CHECK(std::count(after.begin(), after.end(), mark) == 8);
  CHECK(std::count(after.begin(), after.begin() + static_cast<long>(counters / sizeof(float)), 0.0f) ==
        static_cast<long>(counters / sizeof(float)));
  CHECK(std::count(after.end() - 8, after.end(), mark) == 8);

  // A context of one slice needs no scratch, and steps of many tokens need no more than those of 32.
  CHECK(cuda::attention_scratch_bytes(30, 4, 32, 256) == 0);
  CHECK(cuda::attention_scratch_bytes(512, 4, 32, 300) == cuda::attention_scratch_bytes(32, 4, 32, 300));
  CHECK(cuda::attention_scratch_bytes(1, 4, 32, 1 << 20) == cuda::attention_scratch_bytes(1, 4, 32, 8192));
}

TEST_CASE("CUDA: attention reports which shapes it does not support") {
  const TestStream stream;
  KvPlaces places;
  places.n_tokens = 1;
  const auto attend = [&](const KvShape& shape) {
    cuda::attention(nullptr, 0, 1, {}, places, shape, {}, 1, nullptr, nullptr, stream);
  };
  CHECK_THROWS_WITH(attend({1, 769, 16, 1}), ContainsSubstring("769 dimensions"));
  CHECK_THROWS_WITH(attend({1, 64, 32, 1}), ContainsSubstring("32 positions"));
  CHECK_THROWS_WITH(attend({1, 80, 16, 1, KvType::kQ8}), ContainsSubstring("multiples of 32"));
}

TEST_CASE("CUDA: keys and values lie in the cache where the CPU puts them") {
  struct Case {
    Heads heads;
    KvType type;
  };
  for (const auto& [heads, type] :
       {Case{{1, 1, 20}, KvType::kF16}, Case{{2, 2, 80}, KvType::kF16}, Case{{3, 3, 128}, KvType::kF16},
        Case{{1, 1, 32}, KvType::kQ8}, Case{{2, 2, 96}, KvType::kQ8}, Case{{3, 3, 128}, KvType::kQ8}}) {
    Cache cache(heads, {40, 100, 1}, 1, type);
    const std::vector<Token> tokens = run(1, 90, 100) + run(0, 0, 40) + run(2, 0, 1);
    const Places places(cache, tokens);
    const int64_t stride = int64_t{heads.n_kv_heads} * heads.head_dim + 8;
    const size_t n = tokens.size() * static_cast<size_t>(stride);
    std::vector<float> k = normal_numbers(n, 1.5f, cache.random());
    std::vector<float> v = normal_numbers(n, 1e-6f, cache.random());  // subnormal halves among them
    // The largest half, the first value that rounds to infinity, ties, and the smallest that is not 0.
    const std::vector<float> edges = {65504.0f, 65519.9f,        65520.0f,   -1e9f,
                                      INFINITY, -0.0f,           0x1.002p0f, 0x1.006p0f,
                                      0x1p-25f, 0x1.000002p-25f, 0x1p-24f,   0x1.8p-24f};
    std::copy(edges.begin(), edges.end(), k.begin() + stride);
    std::copy(edges.begin(), edges.end(), v.begin());
    if (type == KvType::kQ8) {  // a NaN, a group whose scale is 0, ties, a scale that is too large
      k[3 * static_cast<size_t>(stride) + 31] = NAN;
      std::fill_n(k.begin() + 4 * stride, 32, -0x1p-20f);
      for (int i = 0; i < 32; ++i)
        k[static_cast<size_t>(5 * stride + i)] = i == 9 ? 127.0f : -0.5f * static_cast<float>(i);
      v[6 * static_cast<size_t>(stride)] = -1e7f;
    }
    const TestStream stream;
    const DeviceArray<float> k_there(k), v_there(v);
    const DeviceArray<uint16_t> k_cache(cache.k), v_cache(cache.v);
    cuda::kv_append(k_there.data(), v_there.data(), stride, places.there(), cache.shape(),
                    {k_cache.data(), v_cache.data()}, stream);
    for (Isa isa : supported_isas()) {
      Cache expected = cache;
      CpuBackend backend(1, isa);
      backend.reserve({static_cast<int>(tokens.size()), stride, heads.n_heads, 100});
      backend.kv_append(k.data(), v.data(), stride, places.here(), cache.shape(),
                        {expected.k.data(), expected.v.data()});
      INFO(isa_name(isa) << ", heads of " << heads.head_dim << ", " << kv_type_name(type));
      REQUIRE(k_cache.read(stream) == expected.k);
      REQUIRE(v_cache.read(stream) == expected.v);
    }
  }
}

}  // namespace hearth::test
