// How a model's conversations are written: its tool calls, its thinking, the tokens in their tags.
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
  kMayBegin,  // the model may think first
  kBegun,     // the prompt ended within thinking
};

struct ChatSyntax {
  ToolSyntax calls = plain_tool_syntax();
  ThinkingSyntax thinking = {};
  /// New ids of calls must be nine letters and digits; see ChatTemplate::wants_short_ids().
  bool short_ids = false;
  /// The control tokens in tags() of this syntax, ascending: their text belongs to the answer. Filled by the
  /// owner of the tokenizer.
  std::vector<int32_t> control_tokens = {};

  /// Whether the model thinks before it answers, in a known syntax.
  bool thinks() const { return thinking.exists() || calls.form == ToolSyntax::Form::kHarmony; }
  /// Whether the answer to this prompt may think, or is within thinking already.
  ThinkingMode thinking_after(std::string_view prompt) const;
  /// The texts of all tags in calls and thinking, without duplicates. In many vocabularies they are control
  /// tokens.
  std::vector<std::string> tags() const;
};

/// Derives the syntax of a chat template's tool calls and thinking, and leaves control_tokens empty.
/// end_texts: as for derive_tool_syntax(). Does not throw.
ChatSyntax derive_chat_syntax(const ChatTemplate& chat_template, std::span<const std::string> end_texts = {});

}  // namespace hearth
