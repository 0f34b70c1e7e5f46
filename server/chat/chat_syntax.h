// How a model writes conversations: its tool calls, its thinking, and the control tokens that mark both.
//
// Derived from the chat template once, when the model is loaded. Plain data; any thread may read it.
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
  kBegun,     // the prompt ends inside the model's thinking
};

struct ChatSyntax {
  ToolSyntax calls = plain_tool_syntax();
  ThinkingSyntax thinking = {};
  /// Whether the ids of new calls must consist of nine letters and digits; see
  /// ChatTemplate::wants_short_ids().
  bool short_ids = false;
  /// The control tokens among tags(), in ascending order. Their text is part of the answer. The owner of the
  /// tokenizer fills this in.
  std::vector<int32_t> control_tokens = {};

  /// Whether the model thinks before it answers, and marks its thinking in a syntax that Hearth recognizes.
  bool thinks() const { return thinking.exists() || calls.form == ToolSyntax::Form::kHarmony; }
  /// Whether the answer to this prompt may contain thinking, or already begins inside it.
  ThinkingMode thinking_after(std::string_view prompt) const;
  /// Returns all tags that mark calls and thinking, without duplicates. In many vocabularies, these tags are
  /// control tokens.
  std::vector<std::string> tags() const;
};

/// Derives the syntax of tool calls and thinking from a chat template. Leaves control_tokens empty.
/// end_texts: see derive_tool_syntax(). Does not throw.
ChatSyntax derive_chat_syntax(const ChatTemplate& chat_template, std::span<const std::string> end_texts = {});

}  // namespace hearth
