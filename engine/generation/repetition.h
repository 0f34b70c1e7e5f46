// Detects a text that repeats itself without end. Small models often fall into such a loop, and then fill the
// whole context.
//
// Pure functions.
#pragma once

#include <cstdint>
#include <span>

namespace hearth {

/// The tokens at the end of a text that must repeat, and the most tokens of the part that they repeat.
inline constexpr int kRepeatingTokens = 512, kMostRepeated = 64;

/// Whether the last kRepeatingTokens tokens are repetitions of one part of at most kMostRepeated tokens.
bool repeats_itself(std::span<const int32_t> tokens);

}  // namespace hearth
