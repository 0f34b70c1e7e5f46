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
/// text may follow, because the tokenizer might merge that text with the token. Also ends before a token in
/// whose place a token could come that reaches beyond the forced text, such as <tool_call> if its first
/// letters are forced: forcing tokens must not change which tokens can be sampled. Empty if nothing is
/// forced.
std::vector<int32_t> forced_tokens(const ConstraintState& state);

}  // namespace hearth
