// Flags and commands of llama.cpp, Ollama and vLLM that hearthd does not have, with advice for each.
//
// People who know these programs type their words first. Used only for error messages. Pure functions;
// thread-safe.
#pragma once

#include <string_view>
#include <vector>

namespace hearth {

/// flag: with its dashes, without a value, such as "--ctx-size" or "-ngl". Returns a clause that follows
/// "unknown flag '...'; ", or an empty text if the flag is not known.
std::string_view advice_for_flag(std::string_view flag);

/// word: the first argument, such as "ps". Returns a clause that follows "'ps' is not a command of hearthd;
/// ", or an empty text if the word is not known.
std::string_view advice_for_command(std::string_view word);

/// Returns the clauses of both functions, some of them repeatedly.
std::vector<std::string_view> all_advice();

}  // namespace hearth
