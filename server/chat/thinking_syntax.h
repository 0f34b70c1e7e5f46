// The tags with which a model marks its thinking before an answer, such as <think> and </think>.
//
// Derived once, when the model is loaded, by rendering a message with reasoning_content. If the template
// drops past reasoning, a pair of tags in the template's source is used instead. Plain data; any thread may
// read it.
#pragma once

#include <string>
#include <string_view>

#include "server/chat/chat_template.h"

namespace hearth {

/// Both texts are empty if the model does not show its thinking, or marks it in harmony format. Neither text
/// begins or ends with white space.
struct ThinkingSyntax {
  std::string open, close;
  bool exists() const { return !open.empty() && !close.empty(); }
};

ThinkingSyntax derive_thinking_syntax(const ChatTemplate& chat_template);

/// Whether a prompt ends inside thinking, so that the generated text begins inside it.
bool prompt_opens_thinking(const ThinkingSyntax& syntax, std::string_view prompt);

}  // namespace hearth
