// The layers that predict later tokens, and the assistant of gemma4: their logits compared with a reference
// of their formulas in PyTorch (nextn_golden() and heads_golden() in tests/data/arch/tiny_models.py,
// with_assistant() in make_gemma4_models.py), and the same bits however the tokens before came.
#include "engine/forward/nextn_pass.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "engine/model_runtime.h"
#include "tests/engine/forward/nextn_ways.h"
#include "tests/support/catch.h"
#include "tests/support/sanitized.h"

namespace hearth::nextn_pass_test {
namespace {

std::filesystem::path folder() {
  const char* other = std::getenv("HEARTH_ARCH_MODELS");
  return other != nullptr ? std::filesystem::path(other)
                          : std::filesystem::path(testing::source_dir()) / "tests/data/arch";
}

std::vector<Row> golden_rows(const std::string& name) {
  std::ifstream in(folder() / (name + ".nextn.logits"), std::ios::binary);
  std::vector<Row> rows(kTokens / kRowStep + kChainStarts.size() * kChainLength, Row(kVocab));
  for (Row& row : rows)
    in.read(reinterpret_cast<char*>(row.data()), static_cast<std::streamsize>(kVocab * sizeof(float)));
  REQUIRE(in);
  return rows;
}

std::unique_ptr<ModelRuntime> load(const std::string& name, std::optional<Isa> isa = {}) {
  LoadOptions options;
  options.path = folder() / (name + ".gguf");
  options.n_threads = 2;
  options.isa = isa;
  options.n_slots = 3;
  options.prefill_chunk = 48;
  options.context_tokens = 64;
  options.nextn = name != "gemma4";
  if (!options.nextn)
    options.assistant =
        std::make_shared<const ModelFile>(ModelFile::open(folder() / "gemma4-assistant.gguf"));
  return ModelRuntime::load(options);
}

/// The largest difference, as a share of the golden logits' standard deviation.
double worst_difference(const std::vector<Row>& ours, std::span<const Row> golden) {
  REQUIRE(ours.size() == golden.size());
  double sum = 0, squares = 0, worst = 0, n = 0;
  for (size_t r = 0; r < golden.size(); ++r) {
    for (size_t i = 0; i < kVocab; ++i) {
      worst = std::max(worst, std::abs(double{ours[r][i]} - golden[r][i]));
      sum += golden[r][i];
      squares += double{golden[r][i]} * golden[r][i];
      ++n;
    }
  }
  return worst / std::sqrt(squares / n - sum / n * (sum / n));
}

}  // namespace

TEST_CASE("next-token layer: its logits are those of its formula") {
  const std::string name = GENERATE("qwen35-nextn", "glm4moe", "deepseek2-v3-nextn", "mimo2-nextn", "gemma4");
  CAPTURE(name);
  const std::vector<Row> golden = golden_rows(name);
  for (const Isa isa : testing::model_isas()) {
    const auto model = load(name, isa);
    CHECK(model->limits().predicts);
    // The first golden row is of a sequence's first token, which the engine never predicts from.
    CHECK(worst_difference(rows_of(*model, {.name = "whole"}), std::span(golden).subspan(1)) < 0.004);
  }
}

TEST_CASE("next-token layer: the way to a token changes no bit") {
  const std::string name = GENERATE("qwen35-nextn", "glm4moe", "deepseek2-v3-nextn", "mimo2-nextn", "gemma4");
  const auto model = load(name);
  const std::vector<Row> expected = rows_of(*model, {.name = "whole"});
  for (const Way& way :
       {Way{.name = "few predictions", .predicts_all = false},
        Way{.name = "chunks", .chunk = 5, .predicts_all = false},
        Way{.name = "tokens of an answer", .chunk = 1, .prompt = false},
        Way{.name = "tokens of an answer, few predictions",
        .chunk = 1,
        .prompt = false,
        .predicts_all = false},
        Way{.name = "drafts", .chunk = 2, .prompt = false, .n_wrong = 3},
        Way{.name = "drafts, few predictions",
        .chunk = 2,
        .prompt = false,
        .n_wrong = 3,
        .predicts_all = false},
        Way{.name = "neighbors", .chunk = 3, .beside = true, .predicts_all = false},
        Way{.name = "neighbors, tokens of an answer", .chunk = 1, .prompt = false, .beside = true}}) {
    CAPTURE(name, way.name);
    CHECK(rows_of(*model, way) == expected);
  }
}

TEST_CASE("next-token layer: tokens that wait for long go through the layer without a prediction") {
  const auto model = load("qwen35-nextn");
  const std::vector<int32_t> tokens = golden_tokens();
  const auto last_row = [&](bool prompt, int chunk) {
    Feeder feeder(*model);
    for (int at = 0; at < kTokens - 1; at += chunk) {
      const int end = std::min(at + chunk, kTokens - 1);
      feeder.step({{.slot = 1, .begin = at, .tokens = part_of(tokens, at, end), .prompt = prompt}});
    }
    return feeder.predict({{.slot = 1, .begin = kTokens - 1, .tokens = {tokens.back()}}}, true).front();
  };
  const Row expected = last_row(true, 48);
  CHECK(last_row(false, 1) == expected);
  CHECK(last_row(false, 47) == expected);
}

TEST_CASE("next-token layer: a sequence that begins in the middle has predictions too") {
  const auto model = load("qwen35-nextn");
  const std::vector<int32_t> tokens = golden_tokens();
  Feeder feeder(*model);
  feeder.step({{.slot = 1, .begin = 0, .tokens = part_of(tokens, 0, 32)}});
  // As after a prefix from the cache: the keys and values are there, the hidden state of token 31 is not.
  feeder.next_sequence(1);
  model->restore_states(1, -1, 32);
  feeder.step({{.slot = 1, .begin = 32, .tokens = part_of(tokens, 32, 40)}});
  const Row there = feeder.predict({{.slot = 1, .begin = 40, .tokens = {tokens[40]}}}, true).front();
  CHECK(std::ranges::all_of(there, [](float x) { return std::isfinite(x); }));
  // Only one token's input differs.
  CHECK(worst_difference({there}, std::vector<Row>{golden_rows("qwen35-nextn")[10]}) < 0.2);
}

}  // namespace hearth::nextn_pass_test
