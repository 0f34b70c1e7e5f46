// A deterministic stand-in for the forward pass, for tests of the engine and the server.
//
// It keeps a paged "KV cache" that holds the token written at each position, and computes the logits after a
// token from the whole history that it reads back through the block tables. So a mistake in block tables,
// prefix reuse, positions or chunking changes the output. Breaches of ForwardModel's contract throw
// std::logic_error, which fails the engine and thereby the test. If it has a window (StepLimits::window),
// each token must also find the tokens at its visible positions in window blocks. Like a real model, it is
// called only by the engine thread. Set it up before the engine starts.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "engine/step/batch.h"

namespace hearth {

class ScriptedModel : public ForwardModel {
 public:
  /// Fills the logits [n_vocab] for the token after this history.
  using Script = std::function<void(std::span<const int32_t> history, std::span<float> logits)>;
  /// Fills the hidden state [d_model] of the last token of this history.
  using HiddenScript = std::function<void(std::span<const int32_t> history, std::span<float> hidden)>;
  /// Called at the start of each forward(), on the engine thread: may wait, record the batch, or throw.
  using BeforeStep = std::function<void(const Batch& batch)>;

  struct Options {
    StepLimits limits{.max_tokens = 64,
                      .max_logit_rows = 32,
                      .n_vocab = 97,
                      .d_model = 11,
                      .block_tokens = 4,
                      .n_blocks = 256};
    Script script = hashed();
    HiddenScript hidden = hashed();
    BeforeStep before_step;  // may be empty
  };

  explicit ScriptedModel(Options options);

  StepLimits limits() const override { return options_.limits; }
  StepOutput forward(const Batch& batch) override;
  /// Possible if the limits say so (StepLimits::copies). The limit of block_bytes must be bytes_of_block().
  void copy_out(int32_t block, int32_t window_block, std::span<std::byte> out) const override;
  void copy_in(int32_t block, int32_t window_block, std::span<const std::byte> in) override;
  static size_t bytes_of_block(const StepLimits& limits);

  /// Makes logits, or a hidden state, in [-8, 8). Each value is a hash of its index and of all tokens of the
  /// history.
  static Script hashed();
  /// Answers any prompt with these tokens: finds the longest beginning of the answer that ends the history
  /// and continues it; after the whole answer comes `end`. So the last prompt token must not occur in the
  /// answer, and each of the answer's tokens must identify its position.
  static Script answering(std::vector<int32_t> answer, int32_t end);

 private:
  size_t place(const Batch& batch, std::span<const int32_t> tables, int n_blocks, int slot,
               int position) const;
  int32_t& cell(const Batch& batch, int slot, int position);
  void write_window(const Batch& batch, size_t i);
  void check(const Batch& batch) const;
  void write(const Batch& batch);
  std::span<const int32_t> history(const Batch& batch, int32_t row);

  Options options_;
  std::vector<int32_t> cache_;          // [n_blocks, block_tokens] tokens, -1 where nothing was written
  std::vector<uint64_t> window_cache_;  // for window blocks: a hash of all tokens up to each position
  std::vector<int32_t> history_;        // scratch
  std::vector<float> logits_;           // [max_logit_rows, n_vocab]
  std::vector<float> hidden_;           // [max_tokens, d_model]
};

}  // namespace hearth
