// The syntax in which a model writes tool calls and thinking, and the control tokens that mark them.
//
// Derived from the chat template when the model is loaded. Plain data; any thread may read it.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "server/chat/chat_template.h"
#include "server/chat/thinking_syntax.h"
#include "server/chat/tools/tool_syntax.h"

namespace hearth {

enum class ThinkingMode {
  kNone,      // the model does not think
  kMayBegin,  // the model may think before it answers
  kBegun,     // the prompt ends inside thinking, which the answer continues
};

struct ChatSyntax {
  ToolSyntax calls = plain_tool_syntax();
  ThinkingSyntax thinking = {};
  /// Whether the ids of new calls must consist of nine letters and digits (ChatTemplate::wants_short_ids()).
  bool short_ids = false;
  /// The tokens that spell tags(), in ascending order. These control tokens, unlike others, appear as text in
  /// answers, because the parser needs the tags. ChatDialect sets this member from the tokenizer.
  std::vector<int32_t> control_tokens = {};

  /// Whether the model thinks before it answers, in a syntax that Hearth recognizes.
  bool thinks() const { return thinking.exists() || calls.form == ToolSyntax::Form::kHarmony; }
  /// Returns whether the answer to this prompt may contain thinking, or begins inside thinking.
  ThinkingMode thinking_after(std::string_view prompt) const;
  /// Returns all tags that mark calls and thinking, without duplicates. In many vocabularies, tags are
  /// control tokens.
  std::vector<std::string> tags() const;
};

/// Derives the syntax from a chat template. Leaves control_tokens empty. end_texts: as in
/// derive_tool_syntax(). Does not throw.
ChatSyntax derive_chat_syntax(const ChatTemplate& chat_template, std::span<const std::string> end_texts = {});

}  // namespace hearth
