// Regular expressions: what they match, and where they are refused. test_regex_oracle.py compares many more
// with Python's.
#include "engine/constraint/regex/regex.h"

#include <string>
#include <vector>

#include "kernels/base/utf8.h"
#include "tests/support/catch.h"
#include "tests/support/grammar_matcher.h"

using hearth::ConstraintError;
using hearth::Grammar;
using hearth::RegexMatch;

namespace {

bool matches(const Grammar& grammar, const std::string& text) {
  return hearth::test::GrammarMatcher(grammar).matches(text);
}

/// A pattern in plain text, searched for as in JSON Schema.
Grammar search_grammar(const std::string& pattern) {
  Grammar grammar;
  const Grammar::Rule root = grammar.declare("root");
  const hearth::CharacterWriter writer = [](Grammar& g, std::span<const hearth::CharRange> set) {
    return g.character(set);
  };
  grammar.define(root, hearth::regex_expression(grammar, pattern, writer, RegexMatch::kSomewhere));
  grammar.set_root(root);
  return grammar;
}

void check(const std::string& pattern, const std::vector<std::string>& members,
           const std::vector<std::string>& others) {
  const Grammar grammar = hearth::regex_grammar(pattern);
  const hearth::RegexNode tree = hearth::parse_regex(pattern);
  for (const std::string& text : members) {
    INFO(pattern << " should match \"" << text << "\"");
    CHECK(matches(grammar, text));
    CHECK(hearth::regex_matches(tree, hearth::code_points(text), RegexMatch::kWhole));
  }
  for (const std::string& text : others) {
    INFO(pattern << " should not match \"" << text << "\"");
    CHECK_FALSE(matches(grammar, text));
    CHECK_FALSE(hearth::regex_matches(tree, hearth::code_points(text), RegexMatch::kWhole));
  }
}

void check_search(const std::string& pattern, const std::vector<std::string>& members,
                  const std::vector<std::string>& others) {
  const Grammar grammar = search_grammar(pattern);
  const hearth::RegexNode tree = hearth::parse_regex(pattern);
  for (const std::string& text : members) {
    INFO(pattern << " should be found in \"" << text << "\"");
    CHECK(matches(grammar, text));
    CHECK(hearth::regex_matches(tree, hearth::code_points(text), RegexMatch::kSomewhere));
  }
  for (const std::string& text : others) {
    INFO(pattern << " should not be found in \"" << text << "\"");
    CHECK_FALSE(matches(grammar, text));
    CHECK_FALSE(hearth::regex_matches(tree, hearth::code_points(text), RegexMatch::kSomewhere));
  }
}

void pattern_refused(const std::string& pattern, const std::string& where,
                     const std::string& part_of_sentence) {
  INFO(pattern);
  try {
    hearth::regex_grammar(pattern);
    FAIL("not refused");
  } catch (const ConstraintError& error) {
    CHECK(error.where() == where);
    CHECK_THAT(error.what(), ContainsSubstring(part_of_sentence));
  }
}

}  // namespace

TEST_CASE("regex: literals, alternatives, groups and quantifiers") {
  check("abc", {"abc"}, {"", "ab", "abcd", "xabc"});
  check("", {""}, {"a"});
  check("a|bc|", {"a", "bc", ""}, {"b", "abc"});
  check("(ab)+(?:c|d)?(?<n>e)*?(?P<m>f)", {"abf", "ababcf", "abdeef"}, {"f", "abcdf", "abe"});
  check("a{2}b{1,}c{0,2}?", {"aab", "aabbb", "aabcc"}, {"ab", "aaccc", "aac", "aabccc"});
  check("(a|b)*abb", {"abb", "babb", "abababb"}, {"ab", "abba"});
  check("(a*)*b", {"b", "aaab"}, {"a"});
  check("x{}{y}", {"x{}{y}"}, {"x"});
}

TEST_CASE("regex: classes and escapes") {
  check("[a-cx-]", {"a", "c", "x", "-"}, {"d", "", "ab"});
  check("[^a-c]", {"d", "\n", "é", "🙂"}, {"a", "c"});
  check("[\\d_\\]]+", {"1_]"}, {"a", "["});
  check("\\d\\D\\w\\W", {"1a_-", "9é0é"}, {"aa__", "1a-_"});
  check("\\s\\S", {" a", "\xC2\xA0x", "\nx"}, {"a ", "  "});
  check(".", {"a", "é", "日", "🙂"}, {"\n", "\r", "", "ab", "\xE2\x80\xA8"});
  check("\\x41\\u00e9\\u{1F642}\\U0001F642\\uD83D\\uDE42", {"Aé🙂🙂🙂"}, {"Aé"});
  check("\\.\\*\\-\\/\\t\\n\\0", {std::string(".*-/\t\n\0", 7)}, {"."});
  check("[\\b]", {"\b"}, {"b"});
  check("é+[α-ω]", {"ééβ"}, {"é", "éA"});
}

TEST_CASE("regex: a search matches around the pattern, up to its anchors") {
  check_search("b", {"b", "abc", "\nb\n"}, {"", "ac"});
  check_search("^b", {"b", "bc"}, {"ab", ""});
  check_search("b$", {"b", "ab"}, {"bc", ""});
  check_search("^b$", {"b"}, {"bb", "ab", "b\n"});
  check_search("^a|b$", {"a", "ax", "b", "xb"}, {"xa", "bx"});
  check_search("(^|,)x(,|$)", {"x", "x,y", "y,x", "a,x,b"}, {"xy", "y,xy", "ax"});
  check_search("^(?:a|b){2}$", {"ab"}, {"abc", "a"});
  check_search("^", {"", "a"}, {});
  check_search("^$", {""}, {"a"});
  check_search("", {"", "a"}, {});
  check_search("^^a$$", {"a"}, {"aa"});
  check_search("(^a)b*", {"a", "abc"}, {"ba"});
}

TEST_CASE("regex: anchors may also close a whole match") {
  check("^ab$", {"ab"}, {"xab", "abx"});
  check("^a|b$", {"a", "b"}, {"ab"});
}

TEST_CASE("regex: constructs that are not regular or not portable are refused with their position") {
  pattern_refused("ab(?=c)", "position 4", "Lookaround");
  pattern_refused("(?<!a)b", "position 2", "Lookaround");
  pattern_refused("(a)\\1", "position 4", "Backreferences");
  pattern_refused("é\\bfoo", "position 2", "Word boundaries");
  pattern_refused("\\p{L}", "position 1", "Unicode properties");
  pattern_refused("(?i)a", "position 2", "Flags");
  pattern_refused("a*+", "position 3", "possessive");
  pattern_refused("a**", "position 3", "quantifier");
  pattern_refused("*a", "position 1", "nothing to repeat");
  pattern_refused("a^b", "position 2", "anchor");
  pattern_refused("(^a)*", "position 2", "anchor");
  pattern_refused("^*", "position 1", "anchor");
  pattern_refused("(a", "position 1", "not closed");
  pattern_refused("a)", "position 2", "closes no group");
  pattern_refused("[a", "position 1", "not closed");
  pattern_refused("[]a]", "position 2", "\"]\"");
  pattern_refused("[z-a]", "position 2", "ends before");
  pattern_refused("[a-\\d]", "position 2", "from one character");
  pattern_refused("[[:alpha:]]", "position 2", "different syntaxes");
  pattern_refused("a{,3}", "position 3", "no minimum");
  pattern_refused("a{3,2}", "position 2", "below");
  pattern_refused("a{3", "position 4", "not closed");
  pattern_refused("a\\", "position 2", "backslash");
  pattern_refused("\\u{110000}", "position 1", "not stand for a character");
  pattern_refused("\\u{41", "position 6", "not closed");
  pattern_refused("\\u00", "position 5", "hexadecimal");
  pattern_refused("\\uD800", "position 1", "not stand for a character");
  pattern_refused("\\q", "position 1", "escape");
  pattern_refused("a\xFF", "position 2", "UTF-8");
}

TEST_CASE("regex: hostile patterns are refused before they cost time or memory") {
  pattern_refused("a{1,100000}", "position 5", "10000");
  pattern_refused("((a{1000}){1000}){1000}", "position 2", "Written out");
  pattern_refused(std::string(20'001, 'a'), "", "bytes");
  pattern_refused(std::string(5'000, '(') + std::string(5'000, ')'), "position 102", "nested");
  std::string nested(99, '(');
  nested.append("a{9999}").append(99, ')').append("{9999}");
  pattern_refused(nested, "position 1", "Written out");
}
