// How a model marks what it thinks before it answers: the texts before and after, such as <think> and
// </think>.
//
// Derived once, when the model is loaded: by rendering a message with reasoning_content, or, if the
// template drops past reasoning, from the pair of tags that its text contains. Plain data; any thread may
// read it.
#pragma once

#include <string>
#include <string_view>

#include "server/chat/chat_template.h"

namespace hearth {

/// Both empty: the model does not think aloud, or (harmony) marks it otherwise. Without white space at
/// their ends.
struct ThinkingSyntax {
  std::string open, close;
  bool exists() const { return !open.empty() && !close.empty(); }
};

ThinkingSyntax derive_thinking_syntax(const ChatTemplate& chat_template);

/// Whether a prompt ends within thinking, so that what the model generates begins there.
bool prompt_opens_thinking(const ThinkingSyntax& syntax, std::string_view prompt);

}  // namespace hearth
