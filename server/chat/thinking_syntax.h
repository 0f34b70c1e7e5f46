// The tags with which a model marks its thinking before an answer, such as <think> and </think>.
//
// Derived once, when the model is loaded: a message with reasoning_content is rendered, and the texts around
// the reasoning are the tags. If the template omits past reasoning, the tags are searched for in the
// template's source. Plain data; any thread may read it.
#pragma once

#include <string>
#include <string_view>

#include "server/chat/chat_template.h"

namespace hearth {

/// Both texts are empty if the model does not show its thinking, or uses OpenAI's harmony format. The texts
/// have no white space at either end.
struct ThinkingSyntax {
  std::string open, close;
  bool exists() const { return !open.empty() && !close.empty(); }
};

ThinkingSyntax derive_thinking_syntax(const ChatTemplate& chat_template);

/// Whether the prompt ends with the opening tag, so that the generated text begins with thinking.
bool prompt_opens_thinking(const ThinkingSyntax& syntax, std::string_view prompt);

}  // namespace hearth
