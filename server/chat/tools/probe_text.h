// Analyzes text that a chat template rendered: finds tags, the ends of JSON values, and common prefixes and
// suffixes that do not cut through a tag.
//
// Used by derive_tool_syntax() and derive_thinking_syntax(). All functions are pure.
#pragma once

#include <cstddef>
#include <string_view>

namespace hearth::probe {

inline constexpr std::string_view kWhiteSpace = " \t\r\n";
/// The result of an unsuccessful search.
inline constexpr size_t kNone = std::string_view::npos;
/// The assistant's text in test conversations.
inline constexpr std::string_view kAnswerText = "hearth says this";

std::string_view trim_start(std::string_view text);
std::string_view trim_end(std::string_view text);
std::string_view trim(std::string_view text);

/// Returns the beginning of the tag that contains position `at`, or npos if no tag contains it. A tag is
/// <...>, or [...] that begins with a capital letter or a slash. A tag contains `at` if it begins before `at`
/// and ends at or after `at`.
size_t tag_around(std::string_view text, size_t at);

/// Returns the length of the longest common prefix that does not end inside a tag or a UTF-8 character of
/// `a`.
size_t common_prefix(std::string_view a, std::string_view b);
/// Returns the length of the longest common suffix that does not begin inside a tag or a UTF-8 character of
/// `a`.
size_t common_suffix(std::string_view a, std::string_view b);

/// Returns the end of the JSON value that begins at `at`, or npos if no value begins there.
size_t json_end(std::string_view text, size_t at);

}  // namespace hearth::probe
