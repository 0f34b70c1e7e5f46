// Parses GBNF, llama.cpp's notation for grammars, as llama.cpp's grammars/README.md describes it.
//
//   root  ::= "yes" | "no" " " reason   # a rule; alternatives; a sequence; a comment
//   reason ::= [a-z]+ ("," [^"\n]*)? .{1,3}
//
// Literals and classes consist of characters, written as UTF-8 or as \n \r \t \\ \" \[ \] \xNN \uNNNN
// \UNNNNNNNN. A quantifier repeats the item before it: a whole literal, class, rule or group. A line break
// ends a rule, except within ( ), after ::= and beside |. Names consist of letters, digits, - and _. The text
// must match `root` as a whole. Not supported: tokens (<think>, <[1000]>), which constraints never allow.
#pragma once

#include <string_view>

#include "engine/constraint/grammar/grammar.h"

namespace hearth {

/// Throws a ConstraintError whose where() is "line L, column C". Both count from 1, and columns count bytes.
/// This does not check whether the rules can be enforced; Constraint::compile() does.
Grammar parse_gbnf(std::string_view text);
/// Like parse_gbnf(), but adds the rules to a larger grammar and returns a call of `root`.
Grammar::Expr gbnf_expression(Grammar& grammar, std::string_view text);

}  // namespace hearth
