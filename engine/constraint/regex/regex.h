// Translates regular expressions to expressions of a grammar, for guided_regex and for patterns in JSON
// schemas; also matches known texts.
//
// regex_parser.h defines the syntax. Anchors are meaningful at the edges of the pattern and of its
// alternatives, and are refused elsewhere. Lazy quantifiers match the same texts as greedy ones. \d and \w
// mean ASCII. Where ECMA-262 and Python differ, \s, \S and the dot match what both match. One thread.
#pragma once

#include <functional>
#include <span>
#include <string_view>

#include "engine/constraint/grammar/grammar.h"
#include "engine/constraint/regex/regex_parser.h"

namespace hearth {

/// Makes the expression for one character of a set, written as UTF-8 or as in a JSON string.
using CharacterWriter = std::function<Grammar::Expr(Grammar&, std::span<const CharRange>)>;

enum class RegexMatch {
  kWhole,      // the text as a whole matches
  kSomewhere,  // a part of the text matches, as for JSON Schema's `pattern`
};

/// Throws ConstraintError with where() "position N" if the pattern is malformed or not supported.
Grammar::Expr regex_expression(Grammar& grammar, std::string_view pattern, const CharacterWriter& writer,
                               RegexMatch match);

/// The grammar of texts that match the pattern as a whole, as UTF-8.
Grammar regex_grammar(std::string_view pattern);

/// Returns whether the text matches. Nested repeats may take as many passes over the text as it has
/// characters, or more. take_work: called before each pass with its number of steps; an exception from it
/// ends the work.
bool regex_matches(
    const RegexNode& regex, std::u32string_view text, RegexMatch match,
    const std::function<void(size_t)>& take_work = [](size_t) {});

}  // namespace hearth
