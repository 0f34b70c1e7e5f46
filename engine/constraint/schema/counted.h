// Many repeats with few states: strings with a maxLength of 100,000, arrays with as many items.
//
// n expanded repeats are n copies of an automaton. Here a block of them is a rule, and the text consists of
// whole blocks followed by a part of one: n / kBlock + 2 kBlock copies. While such a text is read it has two
// readings, in a whole block or in the last one. One thread.
#pragma once

#include "engine/constraint/grammar/grammar.h"

namespace hearth {

/// Copies in a block. A token that crosses the end of a block must be searched again at each position, which
/// takes a millisecond; so blocks must be much longer than a token.
inline constexpr int kCountedBlock = 512;

/// Like Grammar::repeat(), but with calls of rules if the numbers are large. REQUIRES: `what` does not match
/// the empty text.
Grammar::Expr counted(Grammar& grammar, Grammar::Expr what, int least, int most);

}  // namespace hearth
