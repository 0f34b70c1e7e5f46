// Many repeats with few states, for example for strings with a maxLength of 100,000 or arrays with maxItems
// of 100,000.
//
// If n repeats are written out, they take n copies of an automaton. Instead, counted() defines a rule for a
// block of kCountedBlock repeats, and the text consists of whole blocks followed by a part of a block. This
// method takes about n / kCountedBlock + 2 * kCountedBlock copies. A text can be read in two ways at each
// position: inside a whole block, or inside the last part. One thread.
#pragma once

#include "engine/constraint/grammar/grammar.h"

namespace hearth {

/// Number of repeats in a block. At each position where a token can cross the end of a block, tokens must be
/// searched again, which takes a millisecond. So blocks must be much longer than a token.
inline constexpr int kCountedBlock = 512;

/// Like Grammar::repeat(), but calls rules if the numbers are large. REQUIRES: `what` does not match the
/// empty text.
Grammar::Expr counted(Grammar& grammar, Grammar::Expr what, int least, int most);

}  // namespace hearth
