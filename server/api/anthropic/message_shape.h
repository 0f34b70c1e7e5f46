// The answer of POST /v1/messages: a message with blocks of text, thinking and tool calls, sent whole or as a
// stream of Anthropic's events.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "server/api/answer/answer_shape.h"
#include "server/json/json.h"

namespace hearth {

class MessageShape final : public AnswerShape {
 public:
  /// model: the name in the request. shows_thinking: if false, thinking blocks are empty.
  MessageShape(std::string id, std::string model, bool shows_thinking);

  ErrorStyle error_style() const override { return ErrorStyle::kAnthropic; }
  std::string_view ping() const override;

  void know_prompt(int64_t n_tokens) override { n_prompt_ = n_tokens; }
  std::string begin() override;
  std::string part(const ChoicePart& part) override;
  std::string end(const FinishedChoice& choice) override;
  std::string finish(const AnswerTotals& totals) override;
  std::string failure(const ApiError& error) override;
  std::string whole(std::span<const WholeChoice> choices, const AnswerTotals& totals) override;

 private:
  enum class Block { kNone, kText, kThinking, kCall };

  Json message(Json content, const FinishedChoice* finished, const Usage& usage) const;
  std::string open(Block kind, Json block);
  std::string continue_as(Block kind, Json empty_block, Json what);
  std::string close();
  std::string delta(Json delta) const;
  Json content_of(std::span<const SaidItem> said) const;

  std::string id_, model_;
  bool shows_thinking_;
  int64_t n_prompt_ = 0;
  // Streams only: the kind of the current block, and the number of blocks that have begun.
  Block open_ = Block::kNone;
  int n_blocks_ = 0;
  FinishedChoice finished_;
};

}  // namespace hearth
