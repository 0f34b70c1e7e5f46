// The limit on a request's thinking: its number of tokens, and how the engine enforces it.
//
// Called on the HTTP thread.
#pragma once

#include <memory>
#include <optional>
#include <string_view>

#include "engine/constraint/thinking_budget.h"
#include "engine/tokenizer/tokenizer.h"
#include "server/chat/chat_form.h"

namespace hearth {

/// Returns the limit, in tokens, that stands for a reasoning effort if the model's template has no efforts of
/// its own. nullopt for efforts without a limit, and for other words.
std::optional<int> thinking_tokens_of(std::string_view effort);

/// Returns what the engine needs to limit the thinking of an answer to form.thinking_budget. Null if there is
/// no limit, or if the model does not think. trie: has the text of the tags' control tokens.
std::shared_ptr<const ThinkingBudget> make_thinking_budget(const ChatForm& form, const Tokenizer& tokenizer,
                                                           std::shared_ptr<const TokenTrie> trie);

}  // namespace hearth
