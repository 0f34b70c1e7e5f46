// The tokens of text that a constraint forces. They are not sampled, so one step of the model can compute
// several of them.
//
// Pure functions; engine thread.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/constraint/constraint.h"

namespace hearth {

/// Returns tokens that spell ConstraintState::forced(). If possible, they are the tokens that the tokenizer
/// would choose, because models are trained on texts that are split this way. Omits the last token if further
/// text may follow, because the tokenizer might merge that text with the token. Also ends where the next
/// token could instead be a longer one that extends beyond the forced text (such as <tool_call> if only its
/// first letters are forced), because forcing must not exclude tokens that could be sampled. Empty if nothing
/// is forced.
std::vector<int32_t> forced_tokens(const ConstraintState& state);

}  // namespace hearth
