// The layer that predicts later tokens: its logits compared with a reference of its formula in PyTorch
// (nextn_golden() in tests/data/arch/tiny_models.py), and the same bits however the tokens before came.
#include "engine/forward/nextn_pass.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>

#include "engine/model_runtime.h"
#include "engine/step/fixed_blocks.h"
#include "tests/support/catch.h"
#include "tests/support/sanitized.h"

namespace hearth::nextn_pass_test {
namespace {

constexpr int kVocab = 259, kTokens = 48, kRowStep = 4;  // as in make_models.py and tiny_models.py
constexpr std::array kChainStarts = {11, 23, 43};
constexpr int kChainLength = 3;

std::filesystem::path folder() {
  const char* other = std::getenv("HEARTH_ARCH_MODELS");
  return other != nullptr ? std::filesystem::path(other)
                          : std::filesystem::path(testing::source_dir()) / "tests/data/arch";
}

std::vector<int32_t> golden_tokens() {
  std::vector<int32_t> tokens;
  for (int i = 0; i < kTokens; ++i) tokens.push_back((17 * i * i + 5 * i + 3) % kVocab);
  return tokens;
}

using Row = std::vector<float>;

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
  options.nextn = true;
  return ModelRuntime::load(options);
}

int32_t best(std::span<const float> row) {
  return static_cast<int32_t>(std::ranges::max_element(row) - row.begin());
}

/// Feeds sequences to a model step by step, each in a slot of its own.
class Feeder {
 public:
  explicit Feeder(ModelRuntime& model) : model_(model), blocks_(model.limits(), 3) {
    blocks_.set_tables(batch_);
  }

  struct Part {
    int slot = 0, begin = 0;
    std::vector<int32_t> tokens;
    int n_drafted = 0;
    bool prompt = true;
  };
  void step(const std::vector<Part>& parts) {
    batch_.clear();
    for (const Part& part : parts) {
      for (size_t i = 0; i < part.tokens.size(); ++i) {
        const int row = batch_.n_tokens();
        add(part.slot, part.begin + static_cast<int>(i), part.tokens[i]);
        if (part.prompt) batch_.prompt_rows.push_back(row);
        if (i + static_cast<size_t>(part.n_drafted) >= part.tokens.size()) batch_.draft_rows.push_back(row);
      }
    }
    model_.forward(batch_);
  }
  /// Returns the logits after one token of each slot.
  std::vector<Row> predict(const std::vector<Part>& parts, bool first) {
    batch_.clear();
    for (const Part& part : parts) add(part.slot, part.begin, part.tokens.front());
    const std::span<const float> logits = model_.predict(batch_, first);
    std::vector<Row> rows;
    for (size_t i = 0; i < parts.size(); ++i) {
      const std::span<const float> row = logits.subspan(i * kVocab, kVocab);
      rows.emplace_back(row.begin(), row.end());
    }
    return rows;
  }
  /// Begins another sequence in the slot.
  void next_sequence(int slot) { ++numbers_[slot]; }

 private:
  void add(int slot, int position, int32_t token) {
    batch_.tokens.push_back(token);
    batch_.positions.push_back(position);
    batch_.slots.push_back(slot);
    batch_.sequences.push_back(numbers_[slot] * 10 + static_cast<uint64_t>(slot));
  }

  ModelRuntime& model_;
  FixedBlocks blocks_;
  Batch batch_;
  std::map<int, uint64_t> numbers_;
};

std::vector<int32_t> part_of(std::span<const int32_t> tokens, int begin, int end) {
  return {tokens.begin() + begin, tokens.begin() + end};
}

/// How the tokens before a prediction reach the model.
struct Way {
  const char* name;
  int chunk = kTokens;       // tokens per step
  bool prompt = true;        // the tokens belong to a prompt, not to an answer
  int n_wrong = 0;           // rejected drafts at the end of each step
  bool beside = false;       // other sequences are in the steps and predictions
  bool predicts_all = true;  // predictions are made after each step, not only where their rows are wanted
};

/// The logits after each 4th token, then those of the chains.
std::vector<Row> rows_of(ModelRuntime& model, const Way& way) {
  Feeder feeder(model);
  const std::vector<int32_t> tokens = golden_tokens();
  std::vector<Row> rows, chains;
  int n_done = 0;
  const auto go_to = [&](int end) {
    while (n_done < end) {
      const int n = std::min(way.chunk, end - n_done);
      Feeder::Part part{.slot = 1,
                        .begin = n_done,
                        .tokens = part_of(tokens, n_done, n_done + n),
                        .n_drafted = way.n_wrong,
                        .prompt = way.prompt};
      for (int i = 0; i < way.n_wrong; ++i) part.tokens.push_back((n_done * 7 + i) % kVocab);
      std::vector<Feeder::Part> parts;
      // Sequences begin anew in the other slots in each step.
      if (way.beside) parts.push_back({.slot = 0, .begin = 0, .tokens = {90 + n_done}, .prompt = false});
      parts.push_back(part);
      if (way.beside) parts.push_back({.slot = 2, .begin = 0, .tokens = {5, 6, 7 + n_done}});
      feeder.step(parts);
      n_done += n;
    }
  };
  const auto predict = [&](int position, int32_t token, bool first) {
    std::vector<Feeder::Part> parts{{.slot = 1, .begin = position, .tokens = {token}}};
    if (way.beside) parts.insert(parts.begin(), {.slot = 2, .begin = 3 + !first, .tokens = {first ? 9 : 4}});
    return feeder.predict(parts, first).back();
  };
  for (int p = 0; p < kTokens; ++p) {
    const bool starts = std::ranges::find(kChainStarts, p) != kChainStarts.end();
    if (p % kRowStep != 0 && !starts && !way.predicts_all) continue;
    if (p == 0) continue;
    go_to(p);
    Row row = predict(p, tokens[static_cast<size_t>(p)], true);
    if (p % kRowStep == 0) rows.push_back(row);
    for (int i = 0; starts && i < kChainLength; ++i) {
      row = predict(p + 1 + i, best(row), false);
      chains.push_back(row);
    }
  }
  rows.insert(rows.end(), chains.begin(), chains.end());
  return rows;
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
  const std::string name = GENERATE("qwen35-nextn", "glm4moe", "deepseek2-v3-nextn");
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
  const std::string name = GENERATE("qwen35-nextn", "glm4moe", "deepseek2-v3-nextn");
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
