// Translates regular expressions to expressions of a grammar, for guided_regex and for patterns in JSON
// schemas. Also checks whether a known text matches.
//
// regex_parser.h defines the syntax. Anchors are allowed only at the edges of the pattern and of its
// alternatives. Lazy quantifiers match the same texts as greedy ones. \d and \w match only ASCII characters.
// For \s, \S and the dot, ECMA-262 and Python match different characters; here each matches only the
// characters on which both languages agree. One thread.
#pragma once

#include <functional>
#include <span>
#include <string_view>

#include "engine/constraint/grammar/grammar.h"
#include "engine/constraint/regex/regex_parser.h"

namespace hearth {

/// Creates the expression for one character of a set, written as UTF-8 or as in a JSON string.
using CharacterWriter = std::function<Grammar::Expr(Grammar&, std::span<const CharRange>)>;

enum class RegexMatch {
  kWhole,      // the text as a whole matches
  kSomewhere,  // a part of the text matches, as JSON Schema's `pattern` requires
};

/// Throws a ConstraintError whose where() is "position N" if the pattern is malformed or not supported.
Grammar::Expr regex_expression(Grammar& grammar, std::string_view pattern, const CharacterWriter& writer,
                               RegexMatch match);

/// Returns the grammar of the texts that match the whole pattern, as UTF-8.
Grammar regex_grammar(std::string_view pattern);

/// Returns whether the text matches. Nested repeats may take as many passes over the text as it has
/// characters, or more. take_work: called before each pass with the pass's number of steps. If it throws,
/// matching stops and the exception propagates.
bool regex_matches(
    const RegexNode& regex, std::u32string_view text, RegexMatch match,
    const std::function<void(size_t)>& take_work = [](size_t) {});

}  // namespace hearth
