// Random grammars over a few letters, for comparing constraints with the slow reference.
#pragma once

#include <random>
#include <string>
#include <vector>

#include "engine/constraint/grammar/grammar.h"

namespace hearth::test {

/// Returns a grammar of rules that call each other, repeats, intersections and differences, over the letters
/// 'a' to 'a' + n_letters - 1. The compiler refuses many of them: left-recursive grammars, and those that
/// never end or match nothing.
Grammar random_grammar(std::mt19937& random, int n_letters);

/// Returns n_tokens tokens of random bytes; a few are empty, long, or equal to others.
std::vector<std::string> random_vocabulary(std::mt19937& random, int n_letters, int n_tokens);

}  // namespace hearth::test
