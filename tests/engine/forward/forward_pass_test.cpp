// The forward pass compared with a reference in plain double loops, for every fact in the table of
// architectures in every combination, including those that no architecture uses yet.
#include "engine/forward/forward_pass.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

#include "kernels/cpu/cpu_backend.h"
#include "tests/support/catch.h"
#include "tests/support/reference_forward.h"
#include "tests/support/sanitized.h"
#include "tests/support/temp_folder.h"
#include "tests/support/tiny_model.h"

namespace hearth::test {
namespace {

using testing::reference_forward;

constexpr int kTokens = 21;  // more than one KV block, and not a multiple of one
constexpr int kChunk = 8;

std::vector<int32_t> tokens_of(int n_vocab) {
  std::vector<int32_t> tokens;
  for (int i = 0; i < kTokens; ++i) tokens.push_back((31 * i * i + 7 * i + 5) % n_vocab);
  return tokens;
}

/// Gives a model the tensors that these facts require, besides llama's own.
void fit(TinyModel& model, const Architecture& arch, bool all_biases) {
  if (arch.norm == NormKind::kLayer) model.random_tensor("output_norm.bias", {32}, 0, 0.5);
  if (all_biases) model.random_tensor("output.bias", {259}, 0, 0.5);
  for (int i = 0; i < 2; ++i) {
    const std::string prefix = "blk." + std::to_string(i) + ".";
    if (arch.norm == NormKind::kLayer) {
      model.random_tensor(prefix + "attn_norm.bias", {32}, 0, 0.5);
      if (!arch.parallel_attention) model.random_tensor(prefix + "ffn_norm.bias", {32}, 0, 0.5);
    }
    if (arch.parallel_attention) model.without_tensor(prefix + "ffn_norm.weight");
    if (arch.qk_norm != QkNorm::kNone) {
      model.random_tensor(prefix + "attn_q_norm.weight", {8}, 1, 0.3);
      model.random_tensor(prefix + "attn_k_norm.weight", {8}, 1, 0.3);
    }
    if (!all_biases) continue;
    for (const auto& [stem, n] : {std::pair{"attn_q", 32}, std::pair{"attn_k", 16}, std::pair{"attn_v", 16},
                                  std::pair{"attn_output", 32}, std::pair{"ffn_gate", 48},
                                  std::pair{"ffn_up", 48}, std::pair{"ffn_down", 32}}) {
      model.random_tensor(prefix + stem + ".bias", {n}, 0, 0.5);
    }
  }
}

/// Logits of all positions by the pass, in chunks.
std::vector<float> run(ForwardPass& pass, const std::vector<int32_t>& tokens) {
  std::vector<int32_t> table{3, 0};  // an unordered block table
  std::vector<float> logits;
  Batch batch;
  for (int begin = 0; begin < kTokens; begin += kChunk) {
    batch.clear();
    for (int i = begin; i < std::min(begin + kChunk, kTokens); ++i) {
      batch.tokens.push_back(tokens[static_cast<size_t>(i)]);
      batch.positions.push_back(i);
      batch.slots.push_back(0);
      batch.logit_rows.push_back(i - begin);
    }
    batch.block_tables = table;
    batch.max_blocks = static_cast<int>(table.size());
    const std::span<const float> rows = pass.run(batch).logits;
    logits.insert(logits.end(), rows.begin(), rows.end());
  }
  return logits;
}

/// Largest difference as a share of the reference's standard deviation.
double worst_share(const std::vector<float>& found, const std::vector<float>& reference) {
  double worst = 0, squares = 0;
  for (size_t i = 0; i < reference.size(); ++i) {
    worst = std::max(worst, std::abs(double{found[i]} - double{reference[i]}));
    squares += double{reference[i]} * double{reference[i]};
  }
  return worst / std::sqrt(squares / static_cast<double>(reference.size()));
}

/// Compares a model of the table's own architecture with the reference.
void check_model(const TinyModel& model) {
  const TempFolder folder;
  model.write(folder / "model.gguf");
  const ModelFile file = ModelFile::open(folder / "model.gguf");
  const ModelSpec spec = read_model_spec(file);
  std::vector<float> inv_freq;
  for (int i = 0; i < 4; ++i) inv_freq.push_back(static_cast<float>(std::pow(10000.0, -2.0 * i / 8)));
  const bool turns = spec.arch.rope != RopeKind::kNone;
  const Rope rope{
      .kind = spec.arch.rope, .n_rot = turns ? 8 : 0, .inv_freq = inv_freq.data(), .magnitude = 1.0f};
  const std::vector<int32_t> tokens = tokens_of(spec.n_vocab);
  for (const Isa isa : testing::model_isas()) {
    CpuBackend backend(1, isa);
    const Weights weights = bind_weights(file, spec);
    const KvMemory kv(spec, {.n_blocks = 4}, backend);
    ForwardPass pass(backend, spec, weights, kv, {kChunk, kChunk, 32});
    CHECK(worst_share(run(pass, tokens), reference_forward(spec, weights, rope, tokens)) < 5e-4);
  }
}

/// Compares an architecture with these facts with the reference.
void check(const Architecture& arch, bool all_biases, Isa isa) {
  TinyModel model;
  fit(model, arch, all_biases);
  const TempFolder folder;
  model.write(folder / "model.gguf");
  const ModelFile file = ModelFile::open(folder / "model.gguf");
  ModelSpec spec = read_model_spec(file);
  spec.arch = arch;
  spec.activation = arch.activation;
  CpuBackend backend(1, isa);
  const Weights weights = bind_weights(file, spec);
  const KvMemory kv(spec, {.n_blocks = 4}, backend);
  ForwardPass pass(backend, spec, weights, kv, {kChunk, kChunk, 32});

  std::vector<float> inv_freq;
  for (int i = 0; i < 4; ++i) inv_freq.push_back(static_cast<float>(std::pow(10000.0, -2.0 * i / 8)));
  const Rope rope{.kind = arch.rope,
                  .n_rot = arch.rope == RopeKind::kNone ? 0 : 8,
                  .inv_freq = inv_freq.data(),
                  .magnitude = 1.0f};
  const std::vector<int32_t> tokens = tokens_of(spec.n_vocab);
  const std::vector<float> found = run(pass, tokens);
  const std::vector<float> reference = reference_forward(spec, weights, rope, tokens);
  REQUIRE(found.size() == reference.size());
  // Rounding to float at some twenty stages changes values by a few 1e-7. Where a key or value is rounded to
  // the other of two halves, the change is 2^-11 of that element, 5e-4, damped by the softmax: up to 8e-5 in
  // all were measured. A missing or misplaced stage changes logits by whole standard deviations.
  CHECK(worst_share(found, reference) < 5e-4);
}

}  // namespace

TEST_CASE("forward pass: the facts of the table in every combination agree with the reference") {
  const NormKind norm = GENERATE(NormKind::kRms, NormKind::kLayer);
  const bool parallel_attention = GENERATE(false, true);
  const bool qk_norm = GENERATE(false, true);
  const bool all_biases = GENERATE(false, true);
  const Architecture arch{.name = "test",
                          .norm = norm,
                          .rope = RopeKind::kHalves,
                          .qk_norm = qk_norm ? QkNorm::kHeads : QkNorm::kNone,
                          .parallel_attention = parallel_attention};
  INFO("layer norm " << (norm == NormKind::kLayer) << ", parallel " << parallel_attention << ", qk norm "
                     << qk_norm << ", biases " << all_biases);
  for (const Isa isa : testing::model_isas()) check(arch, all_biases, isa);
}

TEST_CASE("forward pass: every activation and pairing of the rotary embedding agrees with the reference") {
  const FfnActivation activation = GENERATE(
      FfnActivation{Activation::kSilu}, FfnActivation{Activation::kGelu}, FfnActivation{Activation::kGeluErf},
      FfnActivation{Activation::kRelu}, FfnActivation{Activation::kRelu, 0.1f},
      FfnActivation{Activation::kRelu2}, FfnActivation{Activation::kDRelu});
  const RopeKind rope = GENERATE(RopeKind::kNone, RopeKind::kInterleaved, RopeKind::kHalves);
  INFO("activation " << static_cast<int>(activation.kind) << ", rope " << static_cast<int>(rope));
  const Architecture arch{.name = "test", .rope = rope, .activation = activation};
  for (const Isa isa : testing::model_isas()) check(arch, false, isa);
}

// tests/engine/architectures_test.cpp compares the others with transformers' own results.
TEST_CASE("forward pass: architectures that have no more than the reference knows agree with it") {
  constexpr std::array kNames = {"llama", "qwen2", "qwen3", "bamboo", "falcon", "opt"};
  for (const Architecture& arch : architectures()) {
    if (std::ranges::find(kNames, arch.name) == kNames.end()) continue;
    INFO(arch.name);
    check_model(TinyModel(std::string(arch.name)));
    if (arch.powerinfer_activation) check_model(TinyModel(std::string(arch.name)).powerinfer());
  }
}

TEST_CASE("forward pass: q, k and v in one tensor, and a norm of attention's own, agree with the reference") {
  TinyModel fused("llama");
  for (int i = 0; i < 2; ++i) {
    const std::string prefix = "blk." + std::to_string(i) + ".";
    for (const char* name : {"attn_q.weight", "attn_k.weight", "attn_v.weight"})
      fused.without_tensor(prefix + name);
    fused.random_tensor(prefix + "attn_qkv.weight", {32, 64}, 0, 0.4);
    fused.random_tensor(prefix + "attn_qkv.bias", {64}, 0, 0.5);
  }
  check_model(fused);

  TinyModel two_norms("falcon");
  for (int i = 0; i < 2; ++i) {
    const std::string prefix = "blk." + std::to_string(i) + ".";
    two_norms.random_tensor(prefix + "attn_norm_2.weight", {32}, 1, 0.3);
    two_norms.random_tensor(prefix + "attn_norm_2.bias", {32}, 0, 0.3);
  }
  check_model(two_norms);
}

TEST_CASE("forward pass: the reference is sensitive to every fact") {
  // Otherwise the cases above would show nothing.
  TinyModel model;

  const TempFolder folder;
  model.write(folder / "model.gguf");
  const ModelFile file = ModelFile::open(folder / "model.gguf");
  ModelSpec spec = read_model_spec(file);
  CpuBackend backend(1, Isa::kScalar);
  const Weights weights = bind_weights(file, spec);
  std::vector<float> inv_freq(4, 0.1f);
  const Rope rope{.kind = RopeKind::kHalves, .n_rot = 8, .inv_freq = inv_freq.data()};
  const std::vector<int32_t> tokens = tokens_of(spec.n_vocab);
  const std::vector<float> plain = reference_forward(spec, weights, rope, tokens);
  Rope other = rope;
  other.kind = RopeKind::kInterleaved;
  CHECK(worst_share(reference_forward(spec, weights, other, tokens), plain) > 0.05);
  spec.activation = {Activation::kGelu};
  CHECK(worst_share(reference_forward(spec, weights, rope, tokens), plain) > 0.05);
  spec.activation = {Activation::kSilu};
  spec.arch.parallel_attention = true;
  CHECK(worst_share(reference_forward(spec, weights, rope, tokens), plain) > 0.05);
  spec.arch.parallel_attention = false;
  spec.arch.norm = NormKind::kLayer;
  CHECK(worst_share(reference_forward(spec, weights, rope, tokens), plain) > 0.05);
}

TEST_CASE("forward pass: steps without logit rows give none and still fill the cache") {
  const TempFolder folder;
  TinyModel().write(folder / "model.gguf");
  const ModelFile file = ModelFile::open(folder / "model.gguf");
  const ModelSpec spec = read_model_spec(file);
  CpuBackend backend(1, supported_isas().front());
  const Weights weights = bind_weights(file, spec);
  const KvMemory kv(spec, {.n_blocks = 4}, backend);
  ForwardPass pass(backend, spec, weights, kv, {kTokens, kTokens, 32});
  const std::vector<int32_t> tokens = tokens_of(spec.n_vocab);
  const std::vector<int32_t> table{1, 2};
  const auto batch_of = [&](int begin, int end, std::vector<int32_t> rows) {
    Batch batch;
    for (int i = begin; i < end; ++i) {
      batch.tokens.push_back(tokens[static_cast<size_t>(i)]);
      batch.positions.push_back(i);
      batch.slots.push_back(0);
    }
    batch.logit_rows = std::move(rows);
    batch.block_tables = table;
    batch.max_blocks = 2;
    return batch;
  };
  std::vector<int32_t> all(kTokens);
  std::iota(all.begin(), all.end(), 0);
  const std::span<const float> rows = pass.run(batch_of(0, kTokens, all)).logits;
  const std::vector<float> whole(rows.begin(), rows.end());

  CHECK(pass.run(batch_of(0, 10, {})).logits.empty());
  const std::span<const float> some = pass.run(batch_of(10, kTokens, {0, 4, 10})).logits;
  const size_t n_vocab = static_cast<size_t>(spec.n_vocab);
  REQUIRE(some.size() == 3 * n_vocab);
  CHECK(std::equal(some.begin(), some.begin() + 259, whole.begin() + 10 * 259));
  CHECK(std::equal(some.begin() + 259, some.begin() + 2 * 259, whole.begin() + 14 * 259));
  CHECK(std::equal(some.begin() + 2 * 259, some.end(), whole.begin() + 20 * 259));
}

TEST_CASE("forward pass: hidden states times the output matrix are the logits, in any step") {
  TinyModel model;
  const bool layer_norms = GENERATE(false, true);
  Architecture arch = architectures()[0];
  if (layer_norms) arch.norm = NormKind::kLayer;
  fit(model, arch, layer_norms);
  const TempFolder folder;
  model.write(folder / "model.gguf");
  const ModelFile file = ModelFile::open(folder / "model.gguf");
  ModelSpec spec = read_model_spec(file);
  spec.arch = arch;
  CpuBackend backend(1, supported_isas().front());
  const Weights weights = bind_weights(file, spec);
  const KvMemory kv(spec, {.n_blocks = 4}, backend);
  ForwardPass pass(backend, spec, weights, kv, {kTokens, 4, 32});
  const std::vector<int32_t> tokens = tokens_of(spec.n_vocab);
  const std::vector<int32_t> table{1, 2};
  const size_t d_model = static_cast<size_t>(spec.d_model);
  const auto step = [&](int begin, int end, std::vector<int32_t> logit_rows,
                        std::vector<int32_t> hidden_rows) {
    Batch batch;
    for (int i = begin; i < end; ++i) {
      batch.tokens.push_back(tokens[static_cast<size_t>(i)]);
      batch.positions.push_back(i);
      batch.slots.push_back(0);
    }
    batch.logit_rows = std::move(logit_rows);
    batch.hidden_rows = std::move(hidden_rows);
    batch.block_tables = table;
    batch.max_blocks = 2;
    return pass.run(batch);
  };
  std::vector<int32_t> all(kTokens);
  std::iota(all.begin(), all.end(), 0);
  const StepOutput whole = step(0, kTokens, {}, all);
  CHECK(whole.logits.empty());
  REQUIRE(whole.hidden.size() == kTokens * d_model);
  const std::vector<float> hidden(whole.hidden.begin(), whole.hidden.end());

  step(0, 8, {}, {});
  const StepOutput part = step(8, kTokens, {0, 5, 12}, {0, 1, 5, 12});
  REQUIRE(part.hidden.size() == 4 * d_model);
  for (const auto& [row, position] : {std::pair{0, 8}, std::pair{1, 9}, std::pair{2, 13}, std::pair{3, 20}}) {
    CHECK(std::equal(part.hidden.begin() + row * spec.d_model, part.hidden.begin() + (row + 1) * spec.d_model,
                     hidden.begin() + position * spec.d_model));
  }
  std::vector<float> rows;
  for (const int position : {8, 13, 20}) {
    rows.insert(rows.end(), hidden.begin() + position * spec.d_model,
                hidden.begin() + (position + 1) * spec.d_model);
  }
  std::vector<float> logits(3 * static_cast<size_t>(spec.n_vocab));
  backend.matmul(rows.data(), 3,
                 std::array{Product{.weight = weights.output.weight,
                                    .bias = weights.output.bias,
                                    .out = logits.data(),
                                    .out_stride = spec.n_vocab}});
  CHECK(std::equal(part.logits.begin(), part.logits.end(), logits.begin(), logits.end()));
}

}  // namespace hearth::test
