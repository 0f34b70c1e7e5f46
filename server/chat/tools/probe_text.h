// Finding one's way in the text that a template renders: where tags begin and end, what two texts have in
// common without cutting a tag in two, and where a JSON value ends.
//
// Used by derive_tool_syntax() and derive_thinking_syntax(). Pure functions.
#pragma once

#include <cstddef>
#include <string_view>

namespace hearth::probe {

inline constexpr std::string_view kWhiteSpace = " \t\r\n";
/// What a search returns that finds nothing.
inline constexpr size_t kNone = std::string_view::npos;
/// What the assistant says in conversations that are rendered to be looked at.
inline constexpr std::string_view kAnswerText = "hearth says this";

std::string_view trim_start(std::string_view text);
std::string_view trim_end(std::string_view text);
std::string_view trim(std::string_view text);

/// Where the tag begins in which `at` lies, or npos if it lies in none. A tag is <...> or [...] that
/// begins with a capital letter or a slash; `at` lies in a tag if the tag begins before it and ends at or
/// after it.
size_t tag_around(std::string_view text, size_t at);

/// Length of the longest common beginning, not ending within a tag or a UTF-8 character of `a`.
size_t common_prefix(std::string_view a, std::string_view b);
/// Length of the longest common end, not beginning within a tag or a UTF-8 character of `a`.
size_t common_suffix(std::string_view a, std::string_view b);

/// Where the JSON value that begins at `at` ends, or npos if there is none.
size_t json_end(std::string_view text, size_t at);

}  // namespace hearth::probe
