// The kernels' promise across machines: processors of different kinds compute the same bits.
//
// Tests elsewhere compare the ISAs that one processor has. Those of x86-64 and of Arm never run in one
// process, so each is compared here with committed fingerprints (FNV-1a of all results). After an intended
// change of arithmetic, replace them by those that the failing check prints.
#include <cmath>
#include <cstring>
#include <random>
#include <vector>

#include "kernels/cpu/isa/down_kernels.h"
#include "kernels/cpu/isa/vector_kernels.h"
#include "tests/kernels/matmul_run.h"
#include "tests/kernels/weight_rows.h"
#include "tests/support/catch.h"

namespace hearth::test {
namespace {

class Fingerprint {
 public:
  template <class T>
  void add(const std::vector<T>& values) {
    const auto* bytes = reinterpret_cast<const unsigned char*>(values.data());
    for (size_t i = 0; i < values.size() * sizeof(T); ++i) hash_ = (hash_ ^ bytes[i]) * 0x100000001b3u;
  }
  uint64_t value() const { return hash_; }

 private:
  uint64_t hash_ = 0xcbf29ce484222325u;
};

std::vector<Isa> vector_isas() {
  std::vector<Isa> isas = supported_isas();
  isas.pop_back();  // kScalar
  return isas;
}

/// Products of one token and of five, which use different loops.
uint64_t products(Isa isa, const std::vector<DType>& types, ActivationBits bits = ActivationBits::k15) {
  constexpr int64_t kRows = 35, kCols = 768;
  std::mt19937 rng(20);
  Fingerprint print;
  for (const DType type : types) {
    const OwnedMatrix weight = random_matrix(type, kRows, kCols, rng);
    const std::vector<float> x = random_activations(5 * kCols, rng);
    print.add(multiply(isa, weight.view, x, 5, bits));
    print.add(multiply(isa, weight.view, x, 1, bits));
  }
  return print.value();
}

/// Sums of down rows of every type.
uint64_t down_rows(Isa isa) {
  constexpr int64_t kNeurons = 24, kCols = 512;
  std::mt19937 rng(21);
  Fingerprint print;
  for (const DType type : all_types()) {
    const OwnedMatrix rows = random_matrix(type, kNeurons, kCols, rng);
    const std::vector<float> values = random_activations(kNeurons, rng);
    std::vector<int32_t> ids;
    for (int32_t i = 0; i < kNeurons; ++i) ids.push_back(i);
    std::vector<float> sum(kCols);
    DownColumns down;
    down.rows = rows.view;
    DownArgs args;
    args.down = &down;
    args.ids = ids.data();
    args.values = values.data();
    args.n = kNeurons;
    args.fresh = true;
    args.column_end = kCols;
    args.sum = sum.data();
    down_kernels(isa).add_rows[static_cast<size_t>(type)](args);
    print.add(sum);
  }
  return print.value();
}

/// The operations on rows, at a length that leaves some lanes unused.
uint64_t row_operations(Isa isa) {
  constexpr int64_t kSize = 203;
  const VectorKernels& kernels = vector_kernels(isa);
  std::mt19937 rng(22);
  const std::vector<float> x = random_activations(kSize, rng), y = random_activations(kSize, rng);
  const std::vector<float> table = random_activations(256, rng);
  std::vector<float> out(kSize);
  std::vector<uint16_t> halves(kSize);
  Fingerprint print;
  kernels.rms_norm(x.data(), y.data(), 1e-5f, kSize, out.data());
  print.add(out);
  kernels.layer_norm(x.data(), y.data(), table.data(), 1e-5f, kSize, out.data());
  print.add(out);
  for (const Activation kind : {Activation::kSilu, Activation::kGelu, Activation::kGeluErf, Activation::kRelu,
                                Activation::kRelu2, Activation::kDRelu, Activation::kSwigluOai}) {
    kernels.gated_activation({kind}, x.data(), y.data(), kSize, out.data());
    print.add(out);
  }
  kernels.softmax(x.data(), kSize, out.data());
  print.add(out);
  kernels.sigmoid(x.data(), kSize, out.data());
  print.add(out);
  const std::vector<int32_t> rows = {2, 0, 1};
  kernels.add_weighted_rows({x.data(), 60, rows.data(), y.data(), 3}, 75, out.data());
  print.add(out);
  for (const RopeKind kind : {RopeKind::kHalves, RopeKind::kInterleaved}) {
    out = x;
    kernels.rotate(kind, table.data(), 120, out.data());
    print.add(out);
  }
  kernels.to_half(x.data(), kSize, halves.data());
  print.add(halves);
  return print.value();
}

/// The operations of recurrent layers for a few tokens, and the sigmoid of gates.
uint64_t recurrent_operations(Isa isa) {
  constexpr int64_t kHead = 22, kTokens = 5, kChannels = 39;
  constexpr int kColumns = 6;  // of the second group
  const VectorKernels& kernels = vector_kernels(isa);
  std::mt19937 rng(25);
  const std::vector<float> x = random_activations(500, rng), y = random_activations(500, rng);
  std::vector<float> out(kChannels);
  Fingerprint print;
  kernels.gated_activation({Activation::kSigmoid}, x.data(), y.data(), kChannels, out.data());
  print.add(out);
  const float* const rows[] = {x.data(), y.data() + 7, x.data() + 100, y.data() + 250};
  kernels.convolve({rows, y.data(), 41, 4, kChannels, out.data()});
  print.add(out);
  std::vector<float> decay(kChannels), beta(kChannels), rates(kChannels, -0.1f);
  kernels.delta_gates(x.data(), y.data(), x.data() + 50, rates.data(), kChannels, decay.data(), beta.data());
  print.add(decay);
  print.add(beta);
  std::vector<float> state(kHead * RecurrentShape::kColumns), k = x, outs(kTokens * kColumns), deltas = outs;
  for (float& value : k) value *= 0.1f;
  kernels.delta_tokens({.state = state.data(),
                        .q = y.data(),
                        .k = k.data(),
                        .v = x.data() + 300,
                        .decay = decay.data(),
                        .beta = beta.data(),
                        .out = outs.data(),
                        .deltas = deltas.data(),
                        .key_stride = kHead,
                        .value_stride = kColumns,
                        .gate_stride = 1,
                        .delta_stride = kColumns,
                        .n_tokens = kTokens,
                        .n_rows = kHead,
                        .n_columns = kColumns,
                        .decay_stride = 1});
  print.add(outs);
  print.add(deltas);
  print.add(state);
  kernels.delta_replay({.state = state.data(),
                        .k = k.data(),
                        .deltas = deltas.data(),
                        .decay = decay.data(),
                        .stride = kColumns,
                        .n_tokens = kTokens,
                        .n_rows = kHead,
                        .n_columns = kColumns});
  print.add(state);
  return print.value();
}

/// The operations of layers of Mamba-2 that recurrent_operations() lacks.
uint64_t scan_operations(Isa isa) {
  constexpr int64_t kRows = 22, kTokens = 5, kHeads = 39;
  constexpr int kColumns = 6;
  const VectorKernels& kernels = vector_kernels(isa);
  std::mt19937 rng(26);
  const std::vector<float> x = random_activations(500, rng), y = random_activations(500, rng);
  Fingerprint print;
  std::vector<float> decay(kHeads), steps(kHeads), rates(kHeads, -0.1f);
  kernels.delta_gates(x.data(), nullptr, x.data() + 50, rates.data(), kHeads, decay.data(), steps.data());
  print.add(decay);
  print.add(steps);
  std::vector<float> state(kRows * RecurrentShape::kColumns), outs(kTokens * kColumns), deltas = outs;
  kernels.scan_tokens({.state = state.data(),
                       .q = y.data(),
                       .k = x.data(),
                       .v = x.data() + 300,
                       .decay = decay.data(),
                       .beta = steps.data(),
                       .skip = 0.7f,
                       .out = outs.data(),
                       .deltas = deltas.data(),
                       .key_stride = kRows,
                       .value_stride = kColumns,
                       .gate_stride = 1,
                       .delta_stride = kColumns,
                       .n_tokens = kTokens,
                       .n_rows = kRows,
                       .n_columns = kColumns,
                       .decay_stride = 1});
  print.add(outs);
  print.add(deltas);
  print.add(state);
  return print.value();
}

/// A hash of what VectorKernels::to_q8 makes of finite numbers and of others.
uint64_t rounded_to_q8(Isa isa) {
  std::mt19937 rng(24);
  std::vector<float> x = random_activations(20 * kKvGroup, rng);
  x[100] = INFINITY;
  x[200] = NAN;
  for (int i = 0; i < kKvGroup; ++i) x[static_cast<size_t>(10 * kKvGroup + i)] *= 1e-7f;
  std::vector<int8_t> whole(x.size());
  std::vector<uint16_t> scales(20);
  vector_kernels(isa).to_q8(x.data(), static_cast<int64_t>(x.size()), whole.data(), scales.data());
  Fingerprint print;
  print.add(whole);
  print.add(scales);
  return print.value();
}

/// Attention of seven queries to 90 keys in three KV blocks. `windows`: with windows and soft caps. `slopes`:
/// with scores that fall with the distance.
uint64_t attention(Isa isa, bool windows, KvType type = KvType::kF16, bool slopes = false) {
  constexpr int kRows = 7, kBlockTokens = 32, kKeys = 90;
  const int kHead = type == KvType::kQ8 ? 96 : 80;
  const size_t kBlock = static_cast<size_t>(kHead) * kBlockTokens;
  std::mt19937 rng(23);
  const auto halves = [&](size_t n) {
    const std::vector<float> floats = random_activations(static_cast<int64_t>(n), rng);
    std::vector<uint16_t> out(n);
    vector_kernels(Isa::kScalar).to_half(floats.data(), static_cast<int64_t>(n), out.data());
    return out;
  };
  std::vector<float> q = random_activations(kRows * kHead, rng);
  for (float& value : q) value *= 0.1f;
  // With 8-bit numbers each half is two integers, and the scales are halves.
  const std::vector<uint16_t> k = halves(3 * kBlock), v = halves(3 * kBlock);
  const std::vector<uint16_t> k_scales = halves(3 * kBlock), v_scales = halves(3 * kBlock);
  const std::vector<int32_t> firsts = {3, 4, 13, 20, 31, 70, 71}, limits = {60, 61, 70, 77, 88, 89, 90};
  const std::vector<int32_t> blocks = {2, 0, 1};
  std::vector<float> scores(kRows * kKeyTile), largest(kRows), sum(kRows), weighted(kRows * kHead);
  PartlySeenTile tile;
  tile.q = q.data();
  tile.firsts = windows ? firsts.data() : nullptr;
  tile.limits = limits.data();
  tile.soft_cap = windows ? 3.0f : 0.0f;
  const std::vector<float> slope_of = {0.3f, 0.1f, 0.07f, 0.3f, 0.01f, 0.001f, 0.5f};
  const std::vector<int32_t> positions = {10, 60, 0, 89, 31, 77, 88};
  tile.slopes = slopes ? slope_of.data() : nullptr;
  tile.positions = slopes ? positions.data() : nullptr;
  tile.n_rows = kRows;
  tile.head_dim = kHead;
  tile.end = kKeys;
  tile.k = k.data();
  tile.v = v.data();
  tile.k_scales = k_scales.data();
  tile.v_scales = v_scales.data();
  tile.block_stride = static_cast<int64_t>(kBlock);
  tile.blocks = blocks.data();
  tile.block_tokens = kBlockTokens;
  tile.scores = scores.data();
  tile.largest = largest.data();
  tile.sum = sum.data();
  tile.weighted = weighted.data();
  const VectorKernels& kernels = vector_kernels(isa);
  const auto of_type = static_cast<size_t>(type);
  windows || slopes ? kernels.attend_partly_seen[of_type](tile) : kernels.attend[of_type](tile);
  Fingerprint print;
  print.add(largest);
  print.add(sum);
  print.add(weighted);
  return print.value();
}

}  // namespace

TEST_CASE("quantized products have the same bits on every kind of processor") {
  for (const Isa isa : supported_isas()) {
    INFO(isa_name(isa));
    CHECK(products(isa, quantized_types()) == 0x9532bcbd8d6ef444u);
    CHECK(products(isa, quantized_types(), ActivationBits::k8) == 0x9d3f54c1b4c7bbb3u);
  }
}

TEST_CASE("products of float weights have the same bits on every vector ISA of every kind of processor") {
  for (const Isa isa : vector_isas()) {
    INFO(isa_name(isa));
    CHECK(products(isa, {DType::kF32, DType::kF16, DType::kBF16}) == 0xfa9c654a28748737u);
  }
}

TEST_CASE("keys and values are rounded to the same 8 bits on every kind of processor") {
  for (const Isa isa : supported_isas()) {
    INFO(isa_name(isa));
    CHECK(rounded_to_q8(isa) == 0x201c5e8694f8b376u);
  }
}

TEST_CASE("sums of down rows have the same bits on every kind of processor") {
  for (const Isa isa : supported_isas()) {
    INFO(isa_name(isa));
    CHECK(down_rows(isa) == 0x4991c7324182e82eu);
  }
}

TEST_CASE("row operations and attention have the same bits on every vector ISA of every kind of processor") {
  for (const Isa isa : vector_isas()) {
    INFO(isa_name(isa));
    CHECK(row_operations(isa) == 0x63ddb96df49107c3u);
    CHECK(recurrent_operations(isa) == 0x90009e13f3405c66u);
    CHECK(scan_operations(isa) == 0xde88a7a662960090u);
    CHECK(attention(isa, /*windows=*/false) == 0x1716dfa6d15cae61u);
    CHECK(attention(isa, /*windows=*/true) == 0x3761424d90fc0d1cu);
    CHECK(attention(isa, /*windows=*/false, KvType::kQ8) == 0xff62f83ecc4dcea3u);
    CHECK(attention(isa, /*windows=*/true, KvType::kQ8) == 0xa5b72add1af75f21u);
    CHECK(attention(isa, /*windows=*/false, KvType::kF16, /*slopes=*/true) == 0x5dd2f8b2bd7b1d3fu);
    CHECK(attention(isa, /*windows=*/true, KvType::kF16, /*slopes=*/true) == 0x312626b087981331u);
  }
}

}  // namespace hearth::test
