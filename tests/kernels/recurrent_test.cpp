// The operations of recurrent layers on the CPU: compared with doubles on every ISA, and equal bit for bit
// however a sequence is cut into steps, after rejected drafts, beside other sequences and with any number of
// threads.
#include "kernels/recurrent.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <memory>
#include <random>
#include <utility>

#include "kernels/cpu/cpu_backend.h"
#include "tests/kernels/recurrent_inputs.h"
#include "tests/support/catch.h"
#include "tests/support/same_bits.h"
#include "tests/support/sanitized.h"

namespace hearth {
namespace {

using namespace test;

constexpr float kUnwritten = 77.0f;  // fills rows that no run has

struct Token {
  const Inputs* sequence;
  int position;
};

/// Tokens [begin, end) of a sequence.
std::vector<Token> tokens(const Inputs& sequence, int begin, int end) {
  std::vector<Token> out;
  for (int p = begin; p < end; ++p) out.push_back({&sequence, p});
  return out;
}

/// A run, and its tokens.
struct Piece {
  int slot = 0;
  std::vector<Token> tokens = {};
  bool fresh = false;
  int n_replayed = 0;
  int n_uncertain = 0;
};

/// One sequence's memory in a layer.
struct Kept {
  std::vector<float> state, tail;
  bool operator==(const Kept& other) const {
    return same_bits(state, other.state) && same_bits(tail, other.tail);
  }
};

/// A layer on one backend, whose memory holds NaNs at first, as previous sequences may leave.
class Layer {
 public:
  Layer(const RecurrentShape& shape, Isa isa, int n_threads, int n_slots = 1, int max_drafts = 4)
      : shape_(shape), weights_(shape), backend_(n_threads, isa) {
    backend_.reserve({.max_tokens = 256, .max_cols = 4096, .recurrent = shape});
    for (const auto& [buffer, n_floats] : {std::pair(&states_, n_slots * shape.state_floats()),
                                           std::pair(&tails_, n_slots * shape.tail_floats()),
                                           std::pair(&log_, n_slots * max_drafts * shape.log_floats())}) {
      *buffer = backend_.allocate(static_cast<size_t>(n_floats) * sizeof(float));
      std::fill_n(buffer->floats(), n_floats, NAN);
    }
    memory_ = {states_.floats(), tails_.floats(), log_.floats(), max_drafts};
  }

  /// Computes a step. Returns a row for each token: the convolved channels (q and k normalized, unless the
  /// shape scans), then out, which short convolutions lack. copies: where to copy the state after a token;
  /// the key is the token's index across all pieces.
  std::vector<float> step(const std::vector<Piece>& pieces, const std::map<int, Kept*>& copies = {}) {
    std::vector<RecurrentRun> runs;
    std::vector<RecurrentCopy> tail_copies, state_copies;
    std::vector<float> raw, alpha, beta;
    int n_rows = 0, n_tokens = 0;
    const auto append = [](std::vector<float>& to, const std::vector<float>& from, int position, int64_t n) {
      to.insert(to.end(), from.begin() + position * n, from.begin() + (position + 1) * n);
    };
    for (const Piece& piece : pieces) {
      // A row that no run has.
      raw.insert(raw.end(), static_cast<size_t>(shape_.conv_dim()), NAN);
      alpha.insert(alpha.end(), static_cast<size_t>(shape_.decay_dim()), NAN);
      beta.insert(beta.end(), static_cast<size_t>(shape_.n_v_heads), NAN);
      ++n_rows;
      const int n = static_cast<int>(piece.tokens.size());
      runs.push_back({piece.slot, n_rows, n, piece.n_replayed, piece.n_uncertain, piece.fresh});
      for (const Token& token : piece.tokens) {
        append(raw, token.sequence->raw, token.position, shape_.conv_dim());
        append(alpha, token.sequence->alpha, token.position, shape_.decay_dim());
        append(beta, token.sequence->beta, token.position, shape_.n_v_heads);
        if (const auto at = copies.find(n_tokens); at != copies.end()) {
          at->second->tail.assign(static_cast<size_t>(shape_.tail_floats()), NAN);
          at->second->state.assign(static_cast<size_t>(shape_.state_floats()), NAN);
          tail_copies.push_back({n_rows, at->second->tail.data()});
          state_copies.push_back({n_rows, at->second->state.data()});
        }
        ++n_rows, ++n_tokens;
      }
    }
    const auto unwritten = [&](int64_t n_cols) {
      return std::vector<float>(static_cast<size_t>(n_rows * n_cols), kUnwritten);
    };
    const std::array<int64_t, 3> widths = shape_.conv_parts();
    std::array<std::vector<float>, 3> parts;
    for (size_t i = 0; i < parts.size(); ++i) parts[i] = unwritten(widths[i]);
    std::vector<float>&q = parts[scans(shape_) ? 2 : 0], &k = parts[1], &v = parts[scans(shape_) ? 0 : 2];
    RecurrentOps& ops = *backend_.recurrent();
    ops.causal_conv({.shape = shape_,
                     .runs = runs,
                     .copies = tail_copies,
                     .raw = raw.data(),
                     .taps = weights_.taps.data(),
                     .memory = memory_,
                     .out = {parts[0].data(), parts[1].data(), parts[2].data()},
                     .bias = weights_.bias.empty() ? nullptr : weights_.bias.data(),
                     .silu = has_states(shape_)});
    std::vector<float> rows;
    for (const RecurrentRun& run : runs) {
      for (size_t i = 0; i < parts.size(); ++i) {
        const auto row = parts[i].begin() + (run.first_token - 1) * widths[i];
        REQUIRE(std::all_of(row, row + widths[i], [](float x) { return x == kUnwritten; }));
      }
      if (has_states(shape_)) continue;
      for (int t = run.first_token; t < run.first_token + run.n_tokens; ++t) append(rows, q, t, widths[0]);
    }
    if (!has_states(shape_)) return rows;
    std::vector<float> out = unwritten(shape_.value_dim());
    if (!scans(shape_)) {
      scale_heads(q, 1.0f / static_cast<float>(shape_.head_dim), n_rows);
      scale_heads(k, 1.0f / std::sqrt(static_cast<float>(shape_.head_dim)), n_rows);
    }
    if (shape_.row_decays) {
      std::vector<float> steps(alpha.size());
      ops.delta_gates({n_rows, static_cast<int>(shape_.decay_dim()), alpha.data(), nullptr,
                       weights_.dt.data(), weights_.a.data(), alpha.data(), steps.data()});
      backend_.gated_activation({Activation::kSigmoid}, beta.data(), nullptr,
                                static_cast<int64_t>(beta.size()), beta.data());
    } else {
      ops.delta_gates({n_rows, shape_.n_v_heads, alpha.data(), scans(shape_) ? nullptr : beta.data(),
                       weights_.dt.data(), weights_.a.data(), alpha.data(), beta.data()});  // in place
    }
    const GatedDelta call{shape_,   runs,         state_copies, q.data(), k.data(),
                          v.data(), alpha.data(), beta.data(),  memory_,  out.data()};
    if (scans(shape_)) {
      ops.selective_scan({call, weights_.skip.data()});
    } else {
      ops.gated_delta(call);
    }
    for (const RecurrentRun& run : runs) {
      REQUIRE(out[static_cast<size_t>(run.first_token * shape_.value_dim() - 1)] == kUnwritten);
      for (int t = run.first_token; t < run.first_token + run.n_tokens; ++t) {
        for (size_t i = 0; i < parts.size(); ++i) append(rows, parts[i], t, widths[i]);
        append(rows, out, t, shape_.value_dim());
      }
    }
    return rows;
  }

  Kept kept(int slot) const {
    const float *state = memory_.state(shape_, slot), *tail = memory_.tail(shape_, slot);
    return {{state, state + shape_.state_floats()}, {tail, tail + shape_.tail_floats()}};
  }
  void restore(const Kept& kept, int slot) {
    std::ranges::copy(kept.state, memory_.state(shape_, slot));
    std::ranges::copy(kept.tail, memory_.tail(shape_, slot));
  }

  int64_t row_floats() const { return shape_.conv_dim() + shape_.value_dim(); }
  RecurrentOps& ops() { return *backend_.recurrent(); }
  const RecurrentMemory& memory() const { return memory_; }

 private:
  /// Scales heads of q or k, as a forward pass does.
  void scale_heads(std::vector<float>& heads, float weight, int n_rows) {
    const std::vector<float> weights(static_cast<size_t>(shape_.head_dim), weight);
    const float eps = static_cast<float>(kEps / shape_.head_dim);
    backend_.rms_norm(heads.data(), weights.data(), eps, int64_t{n_rows} * shape_.n_k_heads, shape_.head_dim,
                      heads.data());
  }

  RecurrentShape shape_;
  Weights weights_;
  CpuBackend backend_;
  Buffer states_, tails_, log_;
  RecurrentMemory memory_;
};

/// Computes tokens [0, n) of a sequence in one step.
std::vector<float> whole(Layer& layer, const Inputs& sequence, int n, int slot = 0) {
  return layer.step({{.slot = slot, .tokens = tokens(sequence, 0, n), .fresh = true}});
}

/// Computes a sequence in steps of the given numbers of tokens.
std::vector<float> in_steps(Layer& layer, const Inputs& sequence, const std::vector<int>& sizes) {
  std::vector<float> rows;
  int begin = 0;
  for (const int size : sizes) {
    const std::vector<float> more =
        layer.step({{.slot = 0, .tokens = tokens(sequence, begin, begin + size), .fresh = begin == 0}});
    rows.insert(rows.end(), more.begin(), more.end());
    begin += size;
  }
  return rows;
}

/// Returns the cuts with which a prompt of n tokens is tested: no cut, every cut into two pieces, and cuts
/// into pieces of 1, 2, 3, 5 and 16 tokens.
std::vector<std::vector<int>> cuts(int n) {
  std::vector<std::vector<int>> all = {{n}};
  for (int first = 1; first < n; ++first) all.push_back({first, n - first});
  for (const int size : {1, 2, 3, 5, 16}) {
    std::vector<int> sizes;
    for (int begin = 0; begin < n; begin += size) sizes.push_back(std::min(size, n - begin));
    all.push_back(sizes);
  }
  return all;
}

}  // namespace

TEST_CASE("recurrent layers follow their formulas", "[recurrent]") {
  // q, k and v have a few roundings. The first out is u times the product of q and k, which may cancel to a
  // tenth of its terms.
  constexpr double kConvTolerance = 1e-6, kOutTolerance = 1e-5;
  for (const Isa isa : supported_isas()) {
    for (const RecurrentShape& shape : all_kinds()) {
      for (const int n : {1, 2, 3, 16, 17, 70}) {
        const Inputs sequence(shape, n, 1);
        Layer layer(shape, isa, 2);
        testing::ReferenceRecurrent reference(shape);
        const std::vector<std::vector<double>> rows = expected(shape, sequence, n, reference);
        const std::vector<float> ours = whole(layer, sequence, n);
        INFO(isa_name(isa) << ", " << text(shape) << ", " << n << " tokens");
        if (!has_states(shape)) {
          CHECK(worst_error(ours, rows, 0, shape.conv_dim()) < kConvTolerance);
          continue;
        }
        const int64_t keys = shape.key_dim();
        CHECK(worst_error(ours, rows, 0, keys) < kConvTolerance);
        CHECK(worst_error(ours, rows, keys, 2 * keys) < kConvTolerance);
        CHECK(worst_error(ours, rows, 2 * keys, shape.conv_dim()) < kConvTolerance);
        CHECK(worst_error(ours, rows, shape.conv_dim(), layer.row_floats()) < kOutTolerance);
      }
    }
  }
}

TEST_CASE("a state of 4,000 tokens has not drifted from doubles", "[recurrent]") {
  // A token's update never lengthens a column of S, because k has length 1 and beta and decay are in [0, 1].
  // So rounding errors add up at most, and their signs are random: after n tokens about 2^-24 sqrt(n) = 4e-6
  // of S, and less in heads that forget. Head 0 forgets 2 % of a token's update in 4,000 tokens. In a
  // selective scan, no update depends on S, so the same holds for keys of any length.
  constexpr double kDriftTolerance = 4e-6;
  constexpr int kTokens = testing::kStride == 1 ? 4000 : 1000, kStep = 250;
  const RecurrentShape shape =
      GENERATE(RecurrentShape{1, 2, 128, 4, true}, scan_shape(1, 2, 64, 128), kRowDecays[2]);
  const Inputs sequence(shape, kTokens, 1);
  testing::ReferenceRecurrent reference(shape);
  const std::vector<std::vector<double>> rows = expected(shape, sequence, kTokens, reference);
  for (const Isa isa : testing::model_isas()) {
    Layer layer(shape, isa, 2);
    const std::vector<float> ours = in_steps(layer, sequence, std::vector<int>(kTokens / kStep, kStep));
    INFO(isa_name(isa) << ", " << text(shape));
    CHECK(worst_error(ours, rows, shape.conv_dim(), layer.row_floats()) < kDriftTolerance);
    const Kept kept = layer.kept(0);
    double worst = 0, largest = 0;
    for (int h = 0; h < shape.n_v_heads; ++h) {
      for (int i = 0; i < shape.n_rows(); ++i) {
        for (int c = 0; c < shape.head_dim; ++c) {
          const int64_t group = h * shape.n_column_groups() + c / 16;
          const double state = reference.state(h, i, c);
          worst = std::max(
              worst,
              std::abs(
                  double{kept.state[static_cast<size_t>(group * shape.group_floats() + i * 16 + c % 16)]} -
                  state));
          largest = std::max(largest, std::abs(state));
        }
      }
    }
    CHECK(worst / largest < kDriftTolerance);
  }
}

TEST_CASE("gates follow their formulas over the whole range of floats", "[recurrent]") {
  std::vector<float> alpha;
  for (float x = -100.0f; x <= 100.0f; x += 0.0317f) alpha.push_back(x);
  for (float x = 1e-30f; x < 1e30f; x *= 3.0f) alpha.insert(alpha.end(), {x, -x});
  alpha.insert(alpha.end(), {0.0f, -0.0f, INFINITY, -INFINITY});
  const auto n = static_cast<int>(alpha.size());
  const std::vector<float> dt(alpha.size(), 0.25f);
  for (const Isa isa : supported_isas()) {
    CpuBackend backend(2, isa);
    for (const float rate : {0.0f, -1e-4f, -0.3f, -1.0f, -16.0f}) {
      const std::vector<float> a(alpha.size(), rate);
      std::vector<float> decay(alpha.size()), beta(alpha.size());
      backend.recurrent()->delta_gates(
          {1, n, alpha.data(), alpha.data(), dt.data(), a.data(), decay.data(), beta.data()});
      double worst_decay = 0, worst_beta = 0;
      for (size_t i = 0; i < alpha.size(); ++i) {
        if (rate == 0.0f && std::isinf(alpha[i])) continue;  // 0 times infinity
        const double shifted = double{alpha[i] + 0.25f};
        const double log = rate == 0.0f ? 0.0 : double{rate} * testing::reference_softplus(shifted);
        // The logarithm is within 4e-7 of itself. e^x stops where floats lose digits.
        const double allowed = std::exp(log) * (5e-7 + 4e-7 * std::abs(log)) + 1.2e-38;
        const double error = log == -INFINITY ? double{decay[i]} : std::abs(double{decay[i]} - std::exp(log));
        worst_decay = !(error / allowed <= worst_decay) ? error / allowed : worst_decay;
        const double sigmoid = testing::reference_sigmoid(double{alpha[i]});
        const double beta_error = std::abs(double{beta[i]} - sigmoid) / (6e-7 * sigmoid + 5e-39);
        worst_beta = !(beta_error <= worst_beta) ? beta_error : worst_beta;
        if (!(decay[i] >= 0.0f && decay[i] <= 1.0f)) worst_decay = INFINITY;
      }
      INFO(isa_name(isa) << ", a = " << rate);
      CHECK(worst_decay <= 1.0);
      CHECK(worst_beta <= 1.0);
    }
    // Without beta's logits, beta is the step.
    const std::vector<float> ones(alpha.size(), -1.0f);
    std::vector<float> unused(alpha.size()), steps(alpha.size());
    backend.recurrent()->delta_gates(
        {1, n, alpha.data(), nullptr, dt.data(), ones.data(), unused.data(), steps.data()});
    double worst_step = 0;
    for (size_t i = 0; i < alpha.size(); ++i) {
      const double step = testing::reference_softplus(double{alpha[i] + 0.25f});
      const double error = double{steps[i]} == step ? 0.0 : std::abs(double{steps[i]} - step);
      const double relative = error / (4e-7 * step + 1.2e-38);
      worst_step = !(relative <= worst_step) ? relative : worst_step;
    }
    CHECK(worst_step <= 1.0);
    std::vector<float> decay(3), beta(3);
    const std::vector<float> nan = {NAN, 1.0f, 1.0f}, one(3, 1.0f);
    backend.recurrent()->delta_gates(
        {1, 3, nan.data(), nan.data(), one.data(), one.data(), decay.data(), beta.data()});
    CHECK(std::isnan(decay[0]));
    CHECK(std::isnan(beta[0]));
    CHECK_FALSE(std::isnan(decay[1]));
    CHECK_FALSE(std::isnan(beta[1]));
  }
}

TEST_CASE("a selective scan stores steps times values, and values also pass it by", "[recurrent]") {
  // All numbers are small powers of two and sums of them, so every result is exact.
  for (const Isa isa : supported_isas()) {
    const RecurrentShape shape = scan_shape(1, 2, 3, 5);
    Layer layer(shape, isa, 1);
    const std::vector<float> b = {1, 0, 2, 0, -1, 0, 1, 0, 0, 0}, c = {1, 1, 1, 1, 1, 0, 0, 4, 0, 2};
    const std::vector<float> x = {1, 2, 3, 4, 5, 6, 8, 0, 0, 0, 16, 0};
    const std::vector<float> decay = {0.5f, 0.25f, 0.5f, 0.25f}, step = {2, 4, 1, 0.5f}, skip = {10, 100};
    std::vector<float> out(x.size());
    const RecurrentRun run{.slot = 0, .first_token = 0, .n_tokens = 2, .fresh = true};
    layer.ops().selective_scan({{shape,
                                 {&run, 1},
                                 {},
                                 c.data(),
                                 b.data(),
                                 x.data(),
                                 decay.data(),
                                 step.data(),
                                 layer.memory(),
                                 out.data()},
                                skip.data()});
    INFO(isa_name(isa));
    // Token 0: b c = 2. Token 1: its own b c = 0, and token 0's b with token 1's c gives 8 - 2 = 6.
    CHECK(out == std::vector<float>{2 * 2 * 1 + 10, 2 * 2 * 2 + 20, 2 * 2 * 3 + 30, 4 * 2 * 4 + 400,
                                    4 * 2 * 5 + 500, 4 * 2 * 6 + 600, 0.5f * 2 * 6 * 1 + 80, 0.5f * 2 * 6 * 2,
                                    0.5f * 2 * 6 * 3, 0.25f * 4 * 6 * 4, 0.25f * 4 * 6 * 5 + 1600,
                                    0.25f * 4 * 6 * 6});
  }
}

TEST_CASE("recurrent layers have the same bits on all ISAs that fuse multiply-adds", "[recurrent]") {
  for (const RecurrentShape& shape : all_kinds()) {
    const Inputs sequence(shape, 70, 1);
    std::vector<float> first;
    for (const Isa isa : supported_isas()) {
      if (isa == Isa::kScalar) continue;
      Layer layer(shape, isa, 1);
      const std::vector<float> rows = whole(layer, sequence, 70);
      if (first.empty()) first = rows;
      INFO(isa_name(isa) << ", " << text(shape));
      CHECK(same_bits(rows, first));
    }
  }
}

TEST_CASE("a recurrent layer gives the same bits however a prompt is cut", "[recurrent]") {
  for (const Isa isa : testing::model_isas()) {
    for (const RecurrentShape& shape : all_kinds()) {
      const Inputs sequence(shape, 70, 1);
      Layer one(shape, isa, 1);
      const std::vector<float> all = whole(one, sequence, 70);
      Layer layer(shape, isa, 2);
      for (const int n : {1, 2, 3, 16, 17, 70}) {
        whole(one, sequence, n);
        const Kept kept = one.kept(0);
        const size_t n_floats = static_cast<size_t>(n * one.row_floats());
        for (const std::vector<int>& sizes : cuts(n)) {
          const std::vector<float> rows = in_steps(layer, sequence, sizes);
          INFO(isa_name(isa) << ", " << text(shape) << ", " << n << " tokens, first step " << sizes.front());
          REQUIRE(rows.size() == n_floats);
          CHECK(same_bits(rows, std::span(all).first(n_floats)));
          CHECK(layer.kept(0) == kept);
        }
      }
    }
  }
}

TEST_CASE("a recurrent layer gives the same bits with any number of threads", "[recurrent]") {
  // Enough work that steps are divided: 30 heads of 8 groups.
  const RecurrentShape shape = GENERATE(RecurrentShape{10, 30, 128, 4, true}, scan_shape(10, 30, 128, 96));
  const Inputs sequence(shape, 40, 1);
  for (const Isa isa : testing::model_isas()) {
    Layer one(shape, isa, 1);
    const std::vector<float> all = whole(one, sequence, 40);
    for (const int n_threads : {2, 3, 5}) {
      Layer layer(shape, isa, n_threads);
      INFO(isa_name(isa) << ", " << n_threads << " threads");
      CHECK(same_bits(in_steps(layer, sequence, {1, 2, 37}), all));
      CHECK(layer.kept(0) == one.kept(0));
    }
  }
}

TEST_CASE("drafts that are accepted are replayed, and rejected ones leave no trace", "[recurrent]") {
  constexpr int kTokens = 60, kMaxDrafts = 4;
  for (const Isa isa : testing::model_isas()) {
    for (const RecurrentShape& shape : all_kinds()) {
      const Inputs sequence(shape, kTokens + kMaxDrafts, 1), wrong(shape, kTokens + kMaxDrafts, 50);
      Layer one(shape, isa, 1);
      const std::vector<float> all = whole(one, sequence, kTokens);
      for (unsigned seed = 0; seed < 4; ++seed) {
        std::mt19937 random(seed);
        Layer layer(shape, isa, 2, 1, kMaxDrafts);
        // `done` tokens are certain, of which the last n_replayed are in the log.
        int done = 0, n_replayed = 0;
        while (done < kTokens) {
          const int n_certain = std::min(kTokens - done, 1 + static_cast<int>(random() % 3));
          const int n_drafts = static_cast<int>(random() % (kMaxDrafts + 1));
          const int n_right = std::min(static_cast<int>(random() % (static_cast<unsigned>(n_drafts) + 1)),
                                       kTokens - done - n_certain);
          Piece piece{.slot = 0,
                      .tokens = tokens(sequence, done, done + n_certain + n_right),
                      .fresh = done == 0,
                      .n_replayed = n_replayed,
                      .n_uncertain = n_drafts};
          for (int i = n_right; i < n_drafts; ++i) piece.tokens.push_back({&wrong, done + n_certain + i});
          const std::vector<float> rows = layer.step({piece});
          const auto n_floats = static_cast<size_t>((n_certain + n_right) * layer.row_floats());
          INFO(isa_name(isa) << ", " << text(shape) << ", token " << done << ", " << n_certain << " certain, "
                             << n_right << " of " << n_drafts << " drafts right");
          REQUIRE(
              same_bits(std::span(rows).first(n_floats),
                        std::span(all).subspan(static_cast<size_t>(done * layer.row_floats()), n_floats)));
          done += n_certain + n_right;
          n_replayed = n_right;
        }
        // A run without tokens brings the state up to date.
        layer.step({{.slot = 0, .n_replayed = n_replayed}});
        INFO(isa_name(isa) << ", " << text(shape));
        CHECK(layer.kept(0) == one.kept(0));
      }
    }
  }
}

TEST_CASE("a state does not contain the drafts of its last step", "[recurrent]") {
  const RecurrentShape shape = kShapes.front();
  const Inputs sequence(shape, 12, 1), wrong(shape, 12, 50);
  for (const Isa isa : supported_isas()) {
    Layer one(shape, isa, 1), layer(shape, isa, 1);
    whole(one, sequence, 9);
    Piece piece{.slot = 0, .tokens = tokens(sequence, 0, 9), .fresh = true, .n_uncertain = 3};
    for (int i = 9; i < 12; ++i) piece.tokens.push_back({&wrong, i});
    layer.step({piece});
    CHECK(layer.kept(0) == one.kept(0));
  }
}

TEST_CASE("a sequence gives the same bits beside others as alone", "[recurrent]") {
  for (const Isa isa : testing::model_isas()) {
    for (const RecurrentShape& shape : all_kinds()) {
      const Inputs a(shape, 40, 1), b(shape, 40, 2), c(shape, 40, 3);
      Layer alone(shape, isa, 1, 3);
      const std::vector<float> all_a = whole(alone, a, 40, 0), all_b = whole(alone, b, 40, 1),
                               all_c = whole(alone, c, 40, 2);
      Layer layer(shape, isa, 3, 4);
      const auto row = [&](const std::vector<float>& rows, int begin, int end) {
        const int64_t n = layer.row_floats();
        return std::span(rows).subspan(static_cast<size_t>(begin * n),
                                       static_cast<size_t>((end - begin) * n));
      };
      INFO(isa_name(isa) << ", " << text(shape));
      // b begins, then a begins while b decodes, then c begins in another slot beside drafts of both.
      std::vector<float> rows = layer.step({{.slot = 3, .tokens = tokens(b, 0, 20), .fresh = true}});
      CHECK(same_bits(row(rows, 0, 20), row(all_b, 0, 20)));
      rows = layer.step(
          {{.slot = 3, .tokens = tokens(b, 20, 21)}, {.slot = 0, .tokens = tokens(a, 0, 17), .fresh = true}});
      CHECK(same_bits(row(rows, 0, 1), row(all_b, 20, 21)));
      CHECK(same_bits(row(rows, 1, 18), row(all_a, 0, 17)));
      rows = layer.step({{.slot = 0, .tokens = tokens(a, 17, 20), .n_uncertain = 2},
                         {.slot = 1, .tokens = tokens(c, 0, 40), .fresh = true},
                         {.slot = 3, .tokens = tokens(b, 21, 25), .n_uncertain = 3}});
      CHECK(same_bits(row(rows, 0, 3), row(all_a, 17, 20)));
      CHECK(same_bits(row(rows, 3, 43), row(all_c, 0, 40)));
      CHECK(same_bits(row(rows, 43, 47), row(all_b, 21, 25)));
      // Two drafts of b are accepted and one of a; the order of runs changes.
      rows = layer.step({{.slot = 3, .tokens = tokens(b, 24, 40), .n_replayed = 2},
                         {.slot = 0, .tokens = tokens(a, 19, 40), .n_replayed = 1}});
      CHECK(same_bits(row(rows, 0, 16), row(all_b, 24, 40)));
      CHECK(same_bits(row(rows, 16, 37), row(all_a, 19, 40)));
      CHECK(layer.kept(0) == alone.kept(0));
      CHECK(layer.kept(3) == alone.kept(1));
      CHECK(layer.kept(1) == alone.kept(2));
    }
  }
}

TEST_CASE("copies in the middle of a prompt are the states of shorter prompts", "[recurrent]") {
  for (const Isa isa : testing::model_isas()) {
    for (const RecurrentShape& shape : all_kinds()) {
      const Inputs a(shape, 30, 1), b(shape, 30, 2);
      Layer layer(shape, isa, 2, 2);
      std::map<int, Kept> copies;
      std::map<int, Kept*> wanted;
      // After the tokens 0, 1 and 29 of a, and the tokens 15 and 16 of b, which follow those of a.
      for (const int token : {0, 1, 29, 45, 46}) wanted[token] = &copies[token];
      const std::vector<float> rows = layer.step({{.slot = 0, .tokens = tokens(a, 0, 30), .fresh = true},
                                                  {.slot = 1, .tokens = tokens(b, 0, 30), .fresh = true}},
                                                 wanted);
      INFO(isa_name(isa) << ", " << text(shape));
      Layer other(shape, isa, 1, 2);
      for (const auto& [token, copy] : copies) {
        whole(other, token < 30 ? a : b, token % 30 + 1);
        CHECK(copy == other.kept(0));
      }
      // A sequence continues from a copy in any slot.
      other.restore(copies.at(45), 1);
      const std::vector<float> rest = other.step({{.slot = 1, .tokens = tokens(b, 16, 30)}});
      CHECK(same_bits(rest, std::span(rows).last(rest.size())));
      CHECK(other.kept(1) == layer.kept(1));
    }
  }
}

TEST_CASE("a NaN stays a NaN, in its own sequence, until a fresh run", "[recurrent]") {
  for (const Isa isa : supported_isas()) {
    for (const RecurrentShape& shape : kShapes) {
      const Inputs clean(shape, 20, 1), other(shape, 20, 2);
      Layer alone(shape, isa, 1, 2);
      const std::vector<float> all_clean = whole(alone, clean, 20, 0), all_other = whole(alone, other, 20, 1);
      // In a key, in a value, in the decay and in beta of the last value head, at token 5.
      const int last = shape.n_v_heads - 1;
      const int64_t key = first_channel(shape, 'k') + shape.key_head(last) * shape.n_rows() + 3;
      const int64_t value = first_channel(shape, 'v') + shape.value_dim() - 2;
      const int64_t gate = int64_t{5} * shape.n_v_heads + last;
      for (const int kind : {0, 1, 2, 3}) {
        if (kind == 3 && scans(shape)) continue;  // it has no beta
        Inputs spoiled = clean;
        if (kind == 0) spoiled.raw[static_cast<size_t>(5 * shape.conv_dim() + key)] = NAN;
        if (kind == 1) spoiled.raw[static_cast<size_t>(5 * shape.conv_dim() + value)] = NAN;
        if (kind == 2) spoiled.alpha[static_cast<size_t>(gate)] = NAN;
        if (kind == 3) spoiled.beta[static_cast<size_t>(gate)] = NAN;
        Layer layer(shape, isa, 2, 2);
        const std::vector<float> rows =
            layer.step({{.slot = 0, .tokens = tokens(spoiled, 0, 20), .fresh = true},
                        {.slot = 1, .tokens = tokens(other, 0, 20), .fresh = true}});
        INFO(isa_name(isa) << ", " << text(shape) << ", kind " << kind);
        const auto n_floats = static_cast<size_t>(20 * layer.row_floats());
        CHECK(same_bits(std::span(rows).last(n_floats), all_other));
        CHECK(same_bits(std::span(rows).first(n_floats / 4), std::span(all_clean).first(n_floats / 4)));
        // Column value - 2 from the end of every later out row. Decoding later gives NaN as well.
        bool stays = true;
        for (size_t t = 5; t < 20; ++t) {
          stays = stays && std::isnan(rows[(t + 1) * static_cast<size_t>(layer.row_floats()) - 2]);
        }
        const std::vector<float> later = layer.step({{.slot = 0, .tokens = tokens(clean, 0, 1)}});
        CHECK((stays && std::isnan(later[later.size() - 2])));
        CHECK(same_bits(whole(layer, clean, 20, 0), all_clean));
      }
    }
  }
}

TEST_CASE("a decay of 0 forgets everything, and a decay of 1 nothing", "[recurrent]") {
  for (const Isa isa : supported_isas()) {
    for (const RecurrentShape& shape : kShapes) {
      if (scans(shape)) continue;  // it stores under every key that a token has
      INFO(isa_name(isa) << ", " << text(shape));
      const int d = shape.head_dim, n = 2 * d;
      const auto heads = [&](int n_heads) { return static_cast<size_t>(n * n_heads); };
      const std::vector<float> ones(heads(shape.n_v_heads), 1.0f), zeros(ones.size(), 0.0f);
      const std::vector<float> q = normal_numbers(n * shape.key_dim(), 1),
                               k = normal_numbers(n * shape.key_dim(), 2),
                               v = normal_numbers(n * shape.value_dim(), 3),
                               beta = normal_numbers(int64_t{n} * shape.n_v_heads, 4);
      std::vector<float> out(v.size()), alone(v.size());
      Layer layer(shape, isa, 2, 1);
      // With a decay of 0, every token gives what it gives as the first of a sequence.
      RecurrentRun run{.slot = 0, .first_token = 0, .n_tokens = n, .fresh = true};
      const auto compute = [&](const float* decay, std::vector<float>& into) {
        layer.ops().gated_delta({shape,
                                 {&run, 1},
                                 {},
                                 q.data(),
                                 k.data(),
                                 v.data(),
                                 decay,
                                 beta.data(),
                                 layer.memory(),
                                 into.data()});
      };
      compute(zeros.data(), out);
      for (int t = 0; t < n; ++t) {
        run = {.slot = 0, .first_token = t, .n_tokens = 1, .fresh = true};
        compute(ones.data(), alone);
      }
      CHECK(out == alone);  // zeros may have either sign

      // With a decay and a beta of 1, the state is a memory: whole numbers that are stored under unit keys
      // are read exactly, and a later value replaces an earlier one. Token t stores under key t mod d and
      // reads key (t + 1) mod d, which is empty in the first d - 1 tokens.
      std::vector<float> unit_k(k.size(), 0.0f), unit_q(q.size(), 0.0f), whole_v(v.size());
      for (int t = 0; t < n; ++t) {
        for (int j = 0; j < shape.n_k_heads; ++j) {
          unit_k[static_cast<size_t>(t * shape.key_dim() + j * d + t % d)] = 1.0f;
          unit_q[static_cast<size_t>(t * shape.key_dim() + j * d + (t + 1) % d)] = 1.0f;
        }
      }
      for (size_t i = 0; i < v.size(); ++i) whole_v[i] = std::nearbyintf(v[i] * 100.0f);
      run = {.slot = 0, .first_token = 0, .n_tokens = n, .fresh = true};
      layer.ops().gated_delta({shape,
                               {&run, 1},
                               {},
                               unit_q.data(),
                               unit_k.data(),
                               whole_v.data(),
                               ones.data(),
                               ones.data(),
                               layer.memory(),
                               out.data()});
      std::vector<float> read(v.size(), 0.0f);
      for (int64_t t = d - 1; t < n; ++t) {
        const int64_t stored_at = t + 1 - d;
        std::copy_n(whole_v.begin() + stored_at * shape.value_dim(), shape.value_dim(),
                    read.begin() + t * shape.value_dim());
      }
      CHECK(out == read);
    }
  }
}

TEST_CASE("value heads use the key heads of their order", "[recurrent]") {
  const RecurrentShape tiled{2, 6, 16, 4, true}, grouped{2, 6, 16, 4, false};
  const auto key_heads = [](const RecurrentShape& shape) {
    std::vector<int> heads;
    for (int h = 0; h < shape.n_v_heads; ++h) heads.push_back(shape.key_head(h));
    return heads;
  };
  CHECK(key_heads(tiled) == std::vector<int>{0, 1, 0, 1, 0, 1});
  CHECK(key_heads(grouped) == std::vector<int>{0, 0, 0, 1, 1, 1});
}

TEST_CASE("a fresh run without tokens clears its sequence", "[recurrent]") {
  const RecurrentShape shape = kShapes.front();
  const Inputs sequence(shape, 5, 1);
  Layer layer(shape, supported_isas().front(), 1), other(shape, supported_isas().front(), 1);
  whole(layer, sequence, 5);
  layer.step({{.slot = 0, .fresh = true}});
  CHECK(std::ranges::all_of(layer.kept(0).state, [](float x) { return x == 0.0f; }));
  CHECK(std::ranges::all_of(layer.kept(0).tail, [](float x) { return x == 0.0f; }));
  CHECK(same_bits(layer.step({{.slot = 0, .tokens = tokens(sequence, 0, 5)}}), whole(other, sequence, 5)));
}

TEST_CASE("the sizes of a state and a log are those of the layout", "[recurrent]") {
  const RecurrentShape shape{16, 32, 128, 4, true};
  CHECK(shape.conv_dim() == 8192);
  CHECK(shape.state_bytes() == size_t{2} << 20);
  CHECK(shape.tail_floats() == 3 * 8192);
  CHECK(shape.log_floats() == 2048 + 4096 + 32 + 8192);
  const RecurrentShape padded{2, 6, 20, 4, false};
  CHECK(padded.n_column_groups() == 2);
  CHECK(padded.state_floats() == 6 * 2 * 20 * 16);
  const RecurrentShape nano = scan_shape(8, 64, 64, 128);  // Nemotron 3 Nano
  CHECK(nano.conv_dim() == 6144);
  CHECK(nano.state_bytes() == 2097152);
  CHECK(nano.log_floats() == 1024 + 4096 + 64 + 6144);
  const RecurrentShape conv{.n_taps = 3, .kind = RecurrentKind::kShortConv, .n_channels = 1024};
  CHECK(conv.state_floats() == 0);
  CHECK(conv.tail_floats() == 2 * 1024);
  CHECK(conv.log_floats() == 1024);
}

}  // namespace hearth
