// The tokens of the text that a constraint leaves no choice about, so that they need no sampling: one step of the model then
// computes several of them.
//
// Pure functions; engine thread.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/constraint/constraint.h"

namespace hearth {

/// Tokens of ConstraintState::forced(), as the tokenizer spells that text: a model has seldom seen another spelling. The last
/// token is left out unless the text must end behind it, because it may become one token with what follows. Empty if nothing
/// is forced.
std::vector<int32_t> forced_tokens(const ConstraintState& state);

}  // namespace hearth
