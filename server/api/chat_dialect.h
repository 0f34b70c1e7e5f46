// The chat conventions of one model: turns a request into a prompt, into the constraint on its answer, and
// into the options for reading the answer.
//
// Made once with the model, from its chat template; used by all HTTP threads.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "server/api/constraint_compiler.h"
#include "server/api/openai/chat_request.h"
#include "server/chat/chat_template.h"
#include "server/chat/thinking_syntax.h"
#include "server/chat/tools/tool_call_parser.h"
#include "server/chat/tools/tool_syntax.h"

namespace hearth {

class ChatDialect {
 public:
  /// chat_template: null if the model has none. Both arguments must outlive this.
  ChatDialect(const ChatTemplate* chat_template, const Tokenizer& tokenizer);

  /// Renders the conversation with the template. Throws RequestError if there is no template or it refuses
  /// the messages.
  std::string render(const ChatRequest& request) const;

  /// The constraint on the answer, or null if there is none. rendered: the prompt. Throws RequestError if it
  /// cannot be enforced.
  std::shared_ptr<const Constraint> constraint(const ChatRequest& request, std::string_view rendered,
                                               const ConstraintCompiler& compiler) const;

  /// Whether this model thinks before it answers, in a known syntax.
  bool thinks() const;
  /// Whether answers need a ChatReader: the model thinks, or the request has tools.
  bool has_parts(const ChatRequest& request) const;
  /// Options for reading the answer. seed: source of the call ids.
  ToolParserOptions reading(const ChatRequest& request, std::string_view rendered, uint64_t seed) const;

  /// Control tokens used in calls and thinking, ascending: their text belongs to the answer.
  const std::vector<int32_t>& control_tokens() const { return control_tokens_; }

 private:
  ThinkingMode thinking_mode(std::string_view rendered) const;

  const ChatTemplate* template_;
  ToolSyntax syntax_;
  ThinkingSyntax thinking_;
  std::vector<int32_t> control_tokens_;
};

}  // namespace hearth
