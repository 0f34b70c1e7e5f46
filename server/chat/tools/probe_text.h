// Analyzes the text that a template renders: where tags begin and end, common prefixes and suffixes that cut
// no tag, and where a JSON value ends.
//
// Used by derive_tool_syntax() and derive_thinking_syntax(). Pure functions.
#pragma once

#include <cstddef>
#include <string_view>

namespace hearth::probe {

inline constexpr std::string_view kWhiteSpace = " \t\r\n";
/// The result of an unsuccessful search.
inline constexpr size_t kNone = std::string_view::npos;
/// The assistant's text in probe conversations.
inline constexpr std::string_view kAnswerText = "hearth says this";

std::string_view trim_start(std::string_view text);
std::string_view trim_end(std::string_view text);
std::string_view trim(std::string_view text);

/// The beginning of the tag that contains position `at`, or npos if there is none. A tag is <...>, or [...]
/// that begins with a capital letter or a slash; it contains `at` if it begins before it and ends at or after
/// it.
size_t tag_around(std::string_view text, size_t at);

/// Length of the longest common prefix that does not end within a tag or a UTF-8 character of `a`.
size_t common_prefix(std::string_view a, std::string_view b);
/// Length of the longest common suffix that does not begin within a tag or a UTF-8 character of `a`.
size_t common_suffix(std::string_view a, std::string_view b);

/// The end of the JSON value that begins at `at`, or npos if there is no value.
size_t json_end(std::string_view text, size_t at);

}  // namespace hearth::probe
