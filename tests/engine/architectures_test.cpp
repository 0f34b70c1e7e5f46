// Every architecture and RoPE variant of the table against transformers: tiny random models and their golden
// logits, made by make_models.py and make_sparse_models.py of tests/data/arch. HEARTH_ARCH_MODELS names
// another folder of them.
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "engine/model_runtime.h"
#include "tests/support/catch.h"
#include "tests/support/golden.h"
#include "tests/support/sanitized.h"

namespace hearth::testing {
namespace {

namespace fs = std::filesystem;

fs::path folder() {
  const char* other = std::getenv("HEARTH_ARCH_MODELS");
  return other != nullptr ? fs::path(other) : fs::path(hearth::testing::source_dir()) / "tests/data/arch";
}

constexpr int kVocab = 259;  // as make_models.py has them
constexpr int kTokens = 48;
constexpr int kRowStep = 4;  // golden rows are those of every 4th position

std::vector<int32_t> golden_tokens() {
  std::vector<int32_t> tokens;
  for (int i = 0; i < kTokens; ++i) tokens.push_back((17 * i * i + 5 * i + 3) % kVocab);
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

/// Worst difference over the ISAs of one of the folder's models in a mode, from golden rows of that name.
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
    worst = std::max(worst, worst_difference(logits_of(*model, golden_tokens(), 13), golden));
  }
  return worst;
}

// Weights are exact; keys and values are rounded to half precision (2^-11 of each), which random models show as up to about a
// hundredth of the logits' spread, those of layers without a rotary embedding most (smollm3 0.0103, smallthinker 0.0118). A
// wrong rotation, norm or bias shows as tenths to whole units.
constexpr double kTolerance = 0.015;

}  // namespace

TEST_CASE("architectures give the logits that transformers gives") {
  const std::string name =
      GENERATE("llama", "llama-gqa-tied", "llama-linear", "llama-llama3", "qwen2", "qwen2-yarn", "qwen3",
               "relu-llama", "relu-llama.powerinfer", "bamboo", "bamboo.powerinfer", "falcon-7b",
               "falcon-7b.powerinfer", "falcon-40b", "falcon-40b.powerinfer", "opt", "opt.powerinfer");
  INFO(name);
  CHECK(worst_in_mode(name, "dense", name) < kTolerance);
}

TEST_CASE("mixtures of experts give the logits that transformers gives") {
  const std::string name =
      GENERATE("mixtral", "mixtral-split", "olmoe", "qwen2moe", "qwen2moe-fused", "qwen3moe", "granitemoe",
               "granitemoe-shared", "gpt-oss", "gpt-oss-mxfp4", "glm4moe", "ernie4_5-moe", "minimax-m2",
               "deepseek", "smallthinker", "smallthinker-sigmoid");
  INFO(name);
  CHECK(worst_in_mode(name, "dense", name) < kTolerance);
}

TEST_CASE("mixtures with a relu give the same logits when only active neurons of experts are computed") {
  const std::string name = GENERATE("smallthinker", "smallthinker-sigmoid");
  INFO(name);
  CHECK(worst_in_mode(name, "exact", name) < kTolerance);
}

TEST_CASE("today's dense architectures give the logits that transformers gives") {
  const std::string name =
      GENERATE("gemma", "gemma2", "gemma3", "granite", "olmo2", "olmo3", "phi2", "phi3", "phi3-long",
               "phi3-short", "glm4", "nemotron", "command-r", "cohere2", "starcoder2", "gpt2", "gptneox",
               "gptneox-sequential", "stablelm", "smollm3", "exaone4", "hunyuan-dense");
  INFO(name);
  CHECK(worst_in_mode(name, "dense", name) < kTolerance);
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

TEST_CASE("mixtures and windows give the same bits however a prompt is cut, with any number of threads") {
  const std::string name = GENERATE("mixtral", "qwen2moe", "qwen3moe", "granitemoe-shared", "gpt-oss",
                                    "smallthinker", "gemma2", "gemma3", "cohere2");
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
