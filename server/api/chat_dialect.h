// The chat conventions of one model: turns a request into a prompt, and determines the form of its answer.
//
// Made once with the model, from its chat template; used by all HTTP threads.
#pragma once

#include <string>

#include "engine/tokenizer/tokenizer.h"
#include "server/api/openai/chat_request.h"
#include "server/chat/chat_form.h"
#include "server/chat/chat_template.h"

namespace hearth {

struct RenderedChat {
  std::string prompt;  // the conversation as the model reads it
  ChatForm form;       // how the prompt was written; the answer is constrained and parsed accordingly
};

class ChatDialect {
 public:
  /// chat_template: null if the model has none. Both arguments must outlive this object.
  ChatDialect(const ChatTemplate* chat_template, const Tokenizer& tokenizer);

  /// Decides the request's form and renders the conversation with the template. Throws RequestError if there
  /// is no template, or if the template refuses the messages.
  RenderedChat render(const ChatRequest& request) const;

  /// How the model's conversations are written; without a template, the plain syntax.
  const ChatSyntax& syntax() const { return syntax_; }

 private:
  const ChatTemplate* template_;
  ChatSyntax syntax_;
};

}  // namespace hearth
