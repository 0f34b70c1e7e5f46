// The answer of POST /v1/responses/compact: a conversation whose earlier part is a summary, which the model
// has written.
#pragma once

#include <memory>
#include <span>
#include <string>

#include "server/api/answer/answer_shape.h"
#include "server/api/api_context.h"
#include "server/api/openai/chat_request.h"

namespace hearth {

/// Turns a conversation into the request for its summary: adds the instruction, and removes tools and
/// thinking. context_tokens: the model's context.
void ask_for_summary(ChatRequest& chat, int context_tokens);

/// The items are the user's messages of the conversation, and then one of type compaction. Nothing is stored.
class CompactionShape final : public AnswerShape {
 public:
  /// users: items of the type message, with ids. The context must outlive this object.
  CompactionShape(const ApiContext& api, Json users) : api_(api), users_(std::move(users)) {}

  std::string part(const ChoicePart&) override { return {}; }
  std::string end(const FinishedChoice&) override { return {}; }
  std::string finish(const AnswerTotals&) override { return {}; }
  std::string failure(const ApiError&) override { return {}; }
  std::string whole(std::span<const WholeChoice> choices, const AnswerTotals& totals) override;

 private:
  const ApiContext& api_;
  Json users_;
};

}  // namespace hearth
