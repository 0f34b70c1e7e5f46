// The chat syntax of one model: converts requests to prompts, and determines how answers are parsed.
//
// Each ApiContext has one ChatDialect, derived from the chat template and used by all HTTP threads.
#pragma once

#include <optional>
#include <string>

#include "engine/tokenizer/tokenizer.h"
#include "server/api/openai/chat_request.h"
#include "server/chat/chat_form.h"
#include "server/chat/chat_template.h"

namespace hearth {

struct RenderedChat {
  std::string prompt;  // the conversation as text for the model
  ChatForm form;       // determines how the answer is constrained and parsed
};

class ChatDialect {
 public:
  /// chat_template: null if the model has none. It and the tokenizer must outlive this object.
  /// reasoning_budget: the limit on thinking of requests that set none; -1: no limit.
  ChatDialect(const ChatTemplate* chat_template, const Tokenizer& tokenizer, int reasoning_budget = -1);

  /// Determines the ChatForm of a request and renders its conversation. Throws RequestError if there is no
  /// template, or if the template refuses the messages.
  RenderedChat render(const ChatRequest& request) const;

  /// The syntax of the model's conversations. Without a template, the default syntax.
  const ChatSyntax& syntax() const { return syntax_; }

 private:
  std::optional<int> thinking_budget(const ChatRequest& request) const;

  const ChatTemplate* template_;
  int reasoning_budget_;
  ChatSyntax syntax_;
};

}  // namespace hearth
