// The ways in which tokens reach the layer that predicts later tokens before a prediction, for tests of its
// logits.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "engine/model_runtime.h"
#include "engine/step/fixed_blocks.h"

namespace hearth::nextn_pass_test {

inline constexpr int kVocab = 259, kTokens = 48, kRowStep = 4;  // as in make_models.py and tiny_models.py
inline constexpr std::array kChainStarts = {11, 23, 43};
inline constexpr int kChainLength = 3;

using Row = std::vector<float>;

inline std::vector<int32_t> golden_tokens() {
  std::vector<int32_t> tokens;
  for (int i = 0; i < kTokens; ++i) tokens.push_back((17 * i * i + 5 * i + 3) % kVocab);
  return tokens;
}

inline int32_t best(std::span<const float> row) {
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
        // As in the engine: the logits of the last token that is no draft, and of the drafts.
        if (model_.assisted() && i + static_cast<size_t>(part.n_drafted) + 1 >= part.tokens.size())
          batch_.logit_rows.push_back(row);
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

inline std::vector<int32_t> part_of(std::span<const int32_t> tokens, int begin, int end) {
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
inline std::vector<Row> rows_of(ModelRuntime& model, const Way& way) {
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

}  // namespace hearth::nextn_pass_test
