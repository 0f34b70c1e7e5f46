// See the header.
#include "server/api/request/thinking_limit.h"

#include <algorithm>
#include <array>
#include <string>
#include <utility>

#include "server/chat/tools/probe_text.h"

namespace hearth {
namespace {

/// The last words of thinking that has reached its limit. They tell the model, which may be in the middle of
/// a sentence, why its thinking ends.
constexpr std::string_view kLastWords =
    "\n\nThat is all the thinking that this answer allows. I answer with what I have found so far.\n";

struct Effort {
  std::string_view word;
  int n_tokens;
};
/// A decision without a measurement: each effort allows four times as many tokens as the one below, and "low"
/// allows twice the smallest budget of Anthropic's API.
constexpr std::array<Effort, 5> kEfforts{
    {{"none", 0}, {"minimal", 512}, {"low", 2048}, {"medium", 8192}, {"high", 32768}}};

}  // namespace

std::optional<int> thinking_tokens_of(std::string_view effort) {
  const auto found = std::ranges::find(kEfforts, effort, &Effort::word);
  return found == kEfforts.end() ? std::nullopt : std::optional<int>(found->n_tokens);
}

std::shared_ptr<const ThinkingBudget> make_thinking_budget(const ChatForm& form, const Tokenizer& tokenizer,
                                                           std::shared_ptr<const TokenTrie> trie) {
  if (!form.thinking_budget || form.thinking == ThinkingMode::kNone) return nullptr;
  auto budget = std::make_shared<ThinkingBudget>();
  std::string ending = *form.thinking_budget > 0 ? std::string(kLastWords) : std::string("\n");
  if (form.syntax.calls.form == ToolSyntax::Form::kHarmony) {
    budget->open = "<|channel|>analysis<|message|>";
    budget->closes = {"<|end|>", "<|start|>"};
    budget->opens_anywhere = true;
    ending = std::string(probe::trim(ending)) + "<|end|><|start|>assistant";
  } else {
    budget->open = form.syntax.thinking.open;
    budget->closes = {form.syntax.thinking.close};
    ending += form.syntax.thinking.close;
  }
  budget->begun = form.thinking == ThinkingMode::kBegun;
  budget->n_tokens = *form.thinking_budget;
  budget->ending = tokenizer.encode(ending, false, true);
  budget->trie = std::move(trie);
  if (!budget->ending_closes()) budget->ending = budget->trie->encode(ending);
  if (!budget->ending_closes()) return nullptr;  // the vocabulary cannot spell the tag, so nothing opens it
  return budget;
}

}  // namespace hearth
