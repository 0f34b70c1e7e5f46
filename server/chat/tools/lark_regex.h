// Translates a grammar in Lark's notation to a regular expression, so that a tool's input can follow it. A
// regular expression is enforced within a JSON string by the code for schemas; grammars with recursion are
// refused.
//
// OpenAI's API takes such grammars for the input of custom tools; Codex sends one for its patches. Called on
// the HTTP thread.
#pragma once

#include <string>
#include <string_view>

namespace hearth {

/// Returns a regular expression that matches the whole texts of the rule `start`. Supports rules and
/// terminals without recursion: texts, ranges, regular expressions without flags, groups, `?`, `*`, `+`,
/// `~n..m`, `|`, `[...]`, aliases, and imports of some terminals of `common`. A text is matched as a whole,
/// not token by token. Throws ConstraintError with the line if the grammar is malformed or has anything else.
std::string lark_to_regex(std::string_view definition);

}  // namespace hearth
