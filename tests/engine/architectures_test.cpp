// Every architecture and RoPE variant of the table compared with transformers: tiny random models and their
// golden logits, made by make_models.py and make_sparse_models.py of tests/data/arch. HEARTH_ARCH_MODELS
// names another folder of them.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <span>

#include "engine/model_runtime.h"
#include "engine/serving/pooled_state.h"
#include "tests/support/catch.h"
#include "tests/support/changed_model.h"
#include "tests/support/golden.h"
#include "tests/support/sanitized.h"
#include "tests/support/temp_folder.h"

namespace hearth::testing {
namespace {

namespace fs = std::filesystem;

fs::path folder() {
  const char* other = std::getenv("HEARTH_ARCH_MODELS");
  return other != nullptr ? fs::path(other) : fs::path(hearth::testing::source_dir()) / "tests/data/arch";
}

constexpr int kVocab = 259;  // the same as in make_models.py
constexpr int kTokens = 48;
constexpr int kContext = 64;
constexpr int kRowStep = 4;  // golden rows are those of every 4th position

std::vector<int32_t> golden_tokens(int n = kTokens) {
  std::vector<int32_t> tokens;
  for (int i = 0; i < n; ++i) tokens.push_back((17 * i * i + 5 * i + 3) % kVocab);
  return tokens;
}

std::vector<float> golden_logits(const std::string& name) {
  std::ifstream in(folder() / (name + ".logits"), std::ios::binary);
  std::vector<float> logits(static_cast<size_t>(kTokens / kRowStep * kVocab));
  in.read(reinterpret_cast<char*>(logits.data()),
          static_cast<std::streamsize>(logits.size() * sizeof(float)));
  REQUIRE(in);
  return logits;
}

/// Largest difference from the golden rows, as a share of the logits' own spread (their standard deviation).
double worst_difference(const std::vector<float>& ours, const std::vector<float>& golden) {
  double sum = 0, squares = 0, worst = 0;
  for (size_t i = 0; i < golden.size(); ++i) {
    const size_t row = i / kVocab * kRowStep;
    worst = std::max(worst, std::abs(static_cast<double>(ours[row * kVocab + i % kVocab]) - golden[i]));
    sum += golden[i];
    squares += static_cast<double>(golden[i]) * golden[i];
  }
  const double mean = sum / static_cast<double>(golden.size());
  return worst / std::sqrt(squares / static_cast<double>(golden.size()) - mean * mean);
}

/// Returns the number of rows in which greedy sampling would choose another token than the golden row.
int other_choices(const std::vector<float>& ours, const std::vector<float>& golden) {
  int n = 0;
  for (size_t row = 0; row < golden.size() / kVocab; ++row) {
    const auto best = [](const float* logits) { return std::max_element(logits, logits + kVocab) - logits; };
    n += best(ours.data() + row * kRowStep * kVocab) != best(golden.data() + row * kVocab) ? 1 : 0;
  }
  return n;
}

/// Runs the model NAME.gguf in a sparsity mode on every ISA. Returns the largest difference of its logits
/// from the golden logits called golden_name.
double worst_in_mode(const std::string& name, const std::string& mode, const std::string& golden_name) {
  const std::vector<float> golden = golden_logits(golden_name);
  double worst = 0;
  for (const Isa isa : model_isas()) {
    LoadOptions options;
    options.path = folder() / (name + ".gguf");
    options.n_threads = 1;
    options.isa = isa;
    options.n_slots = 1;
    options.sparsity.mode = mode;
    const auto model = ModelRuntime::load(options);
    CHECK(sparsity_name(model->placed().sparsity.mode) == mode);
    const std::vector<float> ours = logits_of(*model, golden_tokens(), 13);
    CHECK(other_choices(ours, golden) == 0);
    worst = std::max(worst, worst_difference(ours, golden));
  }
  return worst;
}

// Weights are exact. Keys and values are rounded to half precision (2^-11 of each), which in random models
// changes logits by up to about a hundredth of their spread. A wrong rotation, norm or bias changes them by
// tenths to whole units.
constexpr double kTolerance = 0.015;
// The golden rows of all models but PowerInfer's are computed with a cache of halves. So the differences come
// only from the rounding of activations to 15 bits and from the order of sums: up to 0.001, and 0.003 where a
// later layer has no rotary embedding (smallthinker).
constexpr double kCachedTolerance = 0.004;

std::unique_ptr<ModelRuntime> load_encoder(const std::string& name, int n_threads, Isa isa) {
  LoadOptions options;
  options.path = folder() / (name + ".gguf");
  options.n_threads = n_threads;
  options.isa = isa;
  options.n_slots = 6;
  options.prefill_chunk = 200;  // more than the context: several texts fit into a step
  return ModelRuntime::load(options);
}

/// Hidden states of all tokens of the texts, computed in one step with one slot per text.
std::vector<float> hidden_states_of(ForwardModel& model, const std::vector<std::vector<int32_t>>& texts) {
  const StepLimits limits = model.limits();
  size_t longest = kContext;
  for (const std::vector<int32_t>& text : texts) longest = std::max(longest, text.size());
  const int max_blocks = (static_cast<int>(longest) + limits.block_tokens - 1) / limits.block_tokens;
  std::vector<int32_t> tables;
  for (int i = 0; i < max_blocks * static_cast<int>(texts.size()); ++i)
    tables.push_back(limits.n_blocks - 1 - i);
  Batch batch;
  batch.block_tables = tables;
  batch.max_blocks = max_blocks;
  for (size_t text = 0; text < texts.size(); ++text) {
    for (size_t i = 0; i < texts[text].size(); ++i) {
      batch.hidden_rows.push_back(batch.n_tokens());
      batch.tokens.push_back(texts[text][i]);
      batch.positions.push_back(static_cast<int32_t>(i));
      batch.slots.push_back(static_cast<int32_t>(text));
    }
  }
  const std::span<const float> hidden = model.forward(batch).hidden;
  return {hidden.begin(), hidden.end()};
}

std::vector<float> read_floats(const std::string& file, size_t n) {
  std::ifstream in(folder() / file, std::ios::binary);
  std::vector<float> floats(n);
  in.read(reinterpret_cast<char*>(floats.data()), static_cast<std::streamsize>(n * sizeof(float)));
  REQUIRE(in);
  return floats;
}

std::vector<float> golden_hidden(const std::string& name, size_t n) {
  return read_floats(name + ".hidden", n);
}

}  // namespace

TEST_CASE("architectures give the logits that transformers gives") {
  const std::string name =
      GENERATE("relu-llama", "relu-llama.powerinfer", "bamboo", "bamboo.powerinfer", "falcon-7b",
               "falcon-7b.powerinfer", "falcon-40b", "falcon-40b.powerinfer", "opt", "opt.powerinfer");
  INFO(name);
  CHECK(worst_in_mode(name, "dense", name) < kTolerance);
}

TEST_CASE("mixtures of experts give the logits that transformers gives") {
  const std::string name = GENERATE(
      "mixtral", "mixtral-split", "olmoe", "qwen2moe", "qwen2moe-fused", "qwen3moe", "granitemoe",
      "granitemoe-shared", "gpt-oss", "gpt-oss-mxfp4", "glm4moe", "ernie4_5-moe", "minimax-m2", "deepseek",
      "deepseek2-lite", "deepseek2-v2", "deepseek2-v3", "smallthinker", "smallthinker-sigmoid", "qwen3vlmoe",
      "gemma4-moe", "gemma4-moe-split", "hunyuan-moe", "bailingmoe2", "dots1", "exaone-moe", "mellum",
      "mistral4", "afmoe", "laguna", "step35", "mimo2", "llama4", "llama4-maverick", "deepseek32", "glm-dsa");
  INFO(name);
  CHECK(worst_in_mode(name, "dense", name) < kCachedTolerance);
}

TEST_CASE("today's dense architectures give the logits that transformers gives") {
  const std::string name = GENERATE(
      "llama", "llama-gqa-tied", "llama-linear", "llama-llama3", "qwen2", "qwen2-yarn", "qwen3", "gemma",
      "gemma2", "gemma3", "granite", "olmo2", "olmo3", "phi2", "phi3", "phi3-long", "phi3-short", "glm4",
      "nemotron", "command-r", "cohere2", "starcoder2", "gpt2", "gptneox", "gptneox-sequential", "stablelm",
      "stablelm-parallel", "command-r-plus", "mistral3", "smollm3", "exaone4", "hunyuan-dense", "qwen3vl",
      "gemma3n", "gemma4", "gemma4-e2b", "seed_oss", "ernie4_5", "apertus");
  INFO(name);
  CHECK(worst_in_mode(name, "dense", name) < kCachedTolerance);
}

TEST_CASE("models with a squared relu give the same logits when only active neurons are computed") {
  const std::string mode = GENERATE("dense", "exact");
  INFO(mode);
  CHECK(worst_in_mode("arcee", mode, "arcee") < kCachedTolerance);
}

TEST_CASE("models with a layer that predicts later tokens give the logits that transformers gives") {
  const std::string name = GENERATE("qwen35-nextn", "deepseek2-v3-nextn", "mimo2-nextn");
  INFO(name);
  CHECK(worst_in_mode(name, "dense", name) < kCachedTolerance);
}

TEST_CASE("models with recurrent layers give the logits that transformers gives") {
  const std::string name =
      GENERATE("qwen35", "qwen35-equal", "qwen35-tied", "qwen35moe", "qwen35moe-ollama", "qwen3next",
               "qwen3next-legacy", "nemotron_h", "nemotron_h_moe", "nemotron_h_latent", "granitehybrid",
               "granitehybrid-dense", "falcon-h1", "falcon-h1-norm", "lfm2", "lfm2-wide", "lfm2moe", "mamba2",
               "kimi-linear");
  INFO(name);
  CHECK(worst_in_mode(name, "dense", name) < kCachedTolerance);
}

TEST_CASE("mixtures with a relu give the same logits when only active neurons of experts are computed") {
  const std::string name =
      GENERATE("smallthinker", "smallthinker-sigmoid", "nemotron_h_moe", "nemotron_h_latent");
  INFO(name);
  CHECK(worst_in_mode(name, "exact", name) < kCachedTolerance);
}

TEST_CASE("encoders give the hidden states that transformers gives") {
  const std::string name =
      GENERATE("bert", "nomic-bert", "jina-bert-v2", "jina-bert-v2-split", "jina-bert-v3", "modern-bert",
               "modern-bert-silu", "eurobert", "gemma-embedding");
  INFO(name);
  for (const Isa isa : model_isas()) {
    const auto model = load_encoder(name, 1, isa);
    const std::vector<float> ours = hidden_states_of(*model, {golden_tokens()});
    const std::vector<float> golden = golden_hidden(name, ours.size());
    double worst = 0;
    for (size_t i = 0; i < golden.size(); ++i) worst = std::max(worst, std::abs(double{ours[i]} - golden[i]));
    INFO(isa_name(isa));
    CHECK(worst < kTolerance);  // the last norm gives them a spread of about 1
  }
}

TEST_CASE("encoders with windows and heads give the embeddings that sentence-transformers gives") {
  const std::string name = GENERATE("jina-bert-v2", "modern-bert", "gemma-embedding");
  INFO(name);
  const std::vector<float> golden = read_floats(name + ".vectors", size_t{3} * 64);
  for (const Isa isa : model_isas()) {
    const auto model = load_encoder(name, 1, isa);
    CHECK(model->limits().has_head == (name == "gemma-embedding"));
    for (size_t i = 0; i < 3; ++i) {
      const std::vector<int32_t> text = golden_tokens(std::array{3, 40, 200}[i]);
      PooledState pooled(64);
      pooled.add(hidden_states_of(*model, {text}));
      std::vector<float> ours = *pooled.unit_vector();
      if (model->limits().has_head) {
        PooledState changed(64);
        changed.add(model->apply_head(*pooled.mean()));
        ours = *changed.unit_vector();
      }
      double worst = 0;
      for (size_t d = 0; d < 64; ++d)
        worst = std::max(worst, std::abs(double{ours[d]} - double{golden[i * 64 + d]}));
      INFO(isa_name(isa) << ", " << text.size() << " tokens");
      CHECK(worst < 1e-3);
    }
  }
}

TEST_CASE("encoders give a text the same bits in any step, with any number of threads") {
  const std::string name =
      GENERATE("bert", "nomic-bert", "jina-bert-v2", "jina-bert-v3", "modern-bert", "gemma-embedding");
  INFO(name);
  std::vector<std::vector<int32_t>> texts;
  for (const int length : {48, 1, 7, 33, 64, 2}) {
    std::vector<int32_t> text;
    for (int i = 0; i < length; ++i) text.push_back((31 * i + 7 * length) % kVocab);
    texts.push_back(text);
  }
  for (const Isa isa : model_isas()) {
    const auto one = load_encoder(name, 1, isa), three = load_encoder(name, 3, isa);
    std::vector<float> alone;
    for (const std::vector<int32_t>& text : texts) {
      const std::vector<float> rows = hidden_states_of(*one, {text});
      alone.insert(alone.end(), rows.begin(), rows.end());
    }
    INFO(isa_name(isa));
    CHECK(hidden_states_of(*one, texts) == alone);
    CHECK(hidden_states_of(*three, texts) == alone);
  }
}

TEST_CASE("in an encoder a token attends to later tokens too") {
  const auto model = load_encoder("bert", 1, model_isas().front());
  std::vector<int32_t> text = golden_tokens();
  const std::vector<float> before = hidden_states_of(*model, {text});
  text.back() = (text.back() + 1) % kVocab;
  const std::vector<float> after = hidden_states_of(*model, {text});
  const size_t d_model = before.size() / text.size();
  CHECK_FALSE(
      std::equal(before.begin(), before.begin() + static_cast<std::ptrdiff_t>(d_model), after.begin()));
}

TEST_CASE("architectures with a relu give the same logits when only active neurons are computed") {
  const std::string name = GENERATE("relu-llama", "relu-llama.powerinfer", "bamboo", "bamboo.powerinfer",
                                    "falcon-7b.powerinfer", "falcon-40b.powerinfer", "opt", "opt.powerinfer");
  INFO(name);
  CHECK(worst_in_mode(name, "exact", name) < kTolerance);
}

TEST_CASE("architectures propose neurons from the input that PowerInfer's predictors read") {
  const std::string name = GENERATE("relu-llama", "bamboo", "falcon-7b", "falcon-40b", "opt");
  INFO(name);
  CHECK(worst_in_mode(name + ".powerinfer", "predicted", name + ".powerinfer.predicted") < kTolerance);
}

TEST_CASE(
    "mixtures, windows and states give the same bits however a prompt is cut, with any number of threads") {
  const std::string name = GENERATE(
      "mixtral", "qwen2moe", "qwen3moe", "granitemoe-shared", "gpt-oss", "deepseek2-lite", "deepseek2-v2",
      "deepseek2-v3", "smallthinker", "gemma2", "gemma3", "cohere2", "command-r-plus", "stablelm-parallel",
      "mistral3", "gemma3n", "gemma4", "gemma4-e2b", "gemma4-moe", "qwen35", "qwen35moe", "qwen3next",
      "exaone-moe", "nemotron_h", "nemotron_h_moe", "nemotron_h_latent", "granitehybrid",
      "granitehybrid-dense", "falcon-h1", "lfm2", "lfm2-wide", "lfm2moe", "mellum", "mistral4", "afmoe",
      "laguna", "apertus", "step35", "mimo2", "llama4", "deepseek32", "glm-dsa", "mamba2", "kimi-linear");
  INFO(name);
  LoadOptions options;
  options.path = folder() / (name + ".gguf");
  options.n_threads = 1;
  options.n_slots = 1;
  const std::vector<float> whole = logits_of(*ModelRuntime::load(options), golden_tokens(), kTokens);
  options.n_threads = 2;
  const auto model = ModelRuntime::load(options);
  for (const int chunk : {1, 5, 13, kTokens}) CHECK(logits_of(*model, golden_tokens(), chunk) == whole);
}

TEST_CASE("models whose indexers choose positions give the logits that transformers gives") {
  const std::string name = GENERATE("deepseek32-chooses", "glm-dsa-chooses");
  INFO(name);
  const std::vector<float> golden = golden_logits(name);
  LoadOptions options;
  options.path = folder() / (name + ".gguf");
  options.n_slots = 1;
  options.context_tokens = kContext;
  for (const Isa isa : model_isas()) {
    INFO(isa_name(isa));
    options.isa = isa;
    options.n_threads = 1;
    const std::vector<float> whole = logits_of(*ModelRuntime::load(options), golden_tokens(), kTokens);
    CHECK(other_choices(whole, golden) == 0);
    CHECK(worst_difference(whole, golden) < kCachedTolerance);
    options.n_threads = 2;
    const auto model = ModelRuntime::load(options);
    for (const int chunk : {1, 5, 13}) CHECK(logits_of(*model, golden_tokens(), chunk) == whole);
  }
  // The golden does not come from attention over all positions.
  const test::TempFolder changed;
  write_changed(options.path, changed / "model.gguf", {{".attention.indexer.top_k", kContext}});
  options.path = changed / "model.gguf";
  CHECK(worst_difference(logits_of(*ModelRuntime::load(options), golden_tokens(), kTokens), golden) > 0.1);
}

TEST_CASE("the blocks of a model with indexers go on elsewhere with the same bits") {
  LoadOptions options;
  options.path = folder() / "glm-dsa-chooses.gguf";
  options.n_slots = 1;
  options.n_threads = 1;
  options.context_tokens = kContext;
  const auto from = ModelRuntime::load(options), to = ModelRuntime::load(options);
  const StepLimits limits = from->limits();
  REQUIRE(limits.block_tokens == 16);
  const std::vector<float> whole = logits_of(*from, golden_tokens(), kTokens);
  // Three layers of keys and values of 32 + 16 halves, and two indexers' keys of 16.
  CHECK(limits.block_bytes == 16 * 2 * (3 * 2 * 48 + 2 * 16));
  std::vector<std::byte> block(limits.block_bytes);
  const std::vector<int32_t> tables{2, 0, 1};
  for (int i = 0; i < 2; ++i) {
    from->copy_out(limits.n_blocks - 1 - i, -1, block);
    to->copy_in(tables[static_cast<size_t>(i)], -1, block);
  }
  Batch batch;
  batch.block_tables = tables;
  batch.max_blocks = 3;
  for (int t = 32; t < kTokens; ++t) {
    batch.tokens.push_back(golden_tokens()[static_cast<size_t>(t)]);
    batch.positions.push_back(t);
    batch.slots.push_back(0);
    batch.logit_rows.push_back(t - 32);
  }
  const std::span<const float> rows = to->forward(batch).logits;
  CHECK(std::ranges::equal(rows, std::span(whole).last(rows.size())));
}

TEST_CASE("layers without keys leave out tokens that nobody wants, and the others keep their bits") {
  LoadOptions options;
  options.path = folder() / "gemma4-e2b.gguf";
  options.n_threads = 2;
  options.n_slots = 2;
  const auto model = ModelRuntime::load(options);
  const std::vector<int32_t> tokens = golden_tokens();
  const std::vector<float> whole = logits_of(*model, tokens, kTokens);
  const StepLimits limits = model->limits();
  REQUIRE_FALSE(limits.window);
  const int max_blocks = (kContext + limits.block_tokens - 1) / limits.block_tokens;
  std::vector<int32_t> tables;
  for (int i = 0; i < 2 * max_blocks; ++i) tables.push_back(limits.n_blocks - 1 - i);
  // Two sequences of the same text: the steps end after so many tokens, and want these rows.
  struct Step {
    int end;
    std::vector<int32_t> logit_rows;
  };
  int begin = 0;
  std::vector<int> checked;
  for (const Step& step :
       {Step{20, {}}, Step{24, {3, 4}}, Step{25, {0, 1}}, Step{48, {0, 5, 6, 20, 22, 45}}}) {
    Batch batch;
    batch.block_tables = tables;
    batch.max_blocks = max_blocks;
    batch.logit_rows = step.logit_rows;
    for (int slot = 0; slot < 2; ++slot) {
      for (int i = begin; i < step.end; ++i) {
        batch.tokens.push_back(tokens[static_cast<size_t>(i)]);
        batch.positions.push_back(i);
        batch.slots.push_back(slot);
      }
    }
    const std::span<const float> logits = model->forward(batch).logits;
    REQUIRE(logits.size() == step.logit_rows.size() * kVocab);
    for (size_t row = 0; row < step.logit_rows.size(); ++row) {
      const int position = batch.positions[static_cast<size_t>(step.logit_rows[row])];
      CHECK(std::ranges::equal(logits.subspan(row * kVocab, kVocab),
                               std::span(whole).subspan(static_cast<size_t>(position) * kVocab, kVocab)));
      checked.push_back(position);
    }
    begin = step.end;
  }
  CHECK(checked == std::vector<int>{23, 20, 24, 24, 25, 30, 31, 45, 47, 47});
}

TEST_CASE("architectures give the same bits however a prompt is cut, in every mode") {
  const std::string name =
      GENERATE("bamboo.powerinfer", "falcon-40b.powerinfer", "opt.powerinfer", "falcon-7b");
  const std::string mode = GENERATE("dense", "exact", "predicted");
  LoadOptions options;
  options.path = folder() / (name + ".gguf");
  options.n_threads = 2;
  options.n_slots = 1;
  options.sparsity.mode = name == "falcon-7b" ? "dense" : mode;
  const auto model = ModelRuntime::load(options);
  INFO(name << " " << mode);
  const std::vector<float> whole = logits_of(*model, golden_tokens(), kTokens);
  for (const int chunk : {1, 5, 13}) CHECK(logits_of(*model, golden_tokens(), chunk) == whole);
}

}  // namespace hearth::testing
