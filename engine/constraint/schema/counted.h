// Many repeats of one thing, with few states: strings with a maxLength of 100,000, arrays with as many items.
//
// n repeats written out are n copies of an automaton. Here a block of them is a rule, and the text is some whole blocks
// and then a part of one: n / kBlock + 2 kBlock copies. While such a text is read it has two readings, in a whole block or in
// the last one. One thread.
#pragma once

#include "engine/constraint/grammar/grammar.h"

namespace hearth {

/// Copies in a block. A token that goes on behind a block's end is looked for anew at each place, which takes a
/// millisecond; so blocks must be much longer than a token.
inline constexpr int kCountedBlock = 512;

/// Like Grammar::repeat(), with calls of rules where the numbers are large. REQUIRES: what does not match the empty text.
Grammar::Expr counted(Grammar& grammar, Grammar::Expr what, int least, int most);

}  // namespace hearth
