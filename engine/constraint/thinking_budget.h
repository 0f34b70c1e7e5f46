// Limits how many tokens a model may spend on thinking before it answers.
//
// When the limit is reached, the tokens of an ending follow: a sentence and the tag that closes the thinking.
// They are not sampled. ThinkingState watches the tags in the generated text, so that it knows which tokens
// are thinking. Which tokens come depends on the sequence's own tokens alone, so they are the same in a
// stream, in a batch, with drafts, and after the sequence has lost its slot. A grammar does not count the
// tokens, because it would need one state for each, and most requests have no grammar.
//
// HTTP threads make a ThinkingBudget; the engine thread keeps a ThinkingState for each sequence.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/constraint/mask/token_trie.h"

namespace hearth {

/// Plain data that does not change.
struct ThinkingBudget {
  std::shared_ptr<const TokenTrie> trie;  // the text of tokens, also of control tokens that spell tags
  std::string open;                       // opens thinking; not empty
  std::vector<std::string> closes;        // each ends thinking; none is empty
  /// Whether thinking may open anywhere. Otherwise, only white space and thinking may precede it, because a
  /// text may mention the tag.
  bool opens_anywhere = false;
  bool begun = false;           // the prompt ends inside thinking
  int n_tokens = 0;             // the limit, over all thinking of an answer
  std::vector<int32_t> ending;  // tokens that end the thinking

  /// Whether the text of `ending`, by the trie, has one of `closes`.
  bool ending_closes() const;
};

/// The state of a sequence's thinking. Copies are independent.
class ThinkingState {
 public:
  /// budget: not null.
  explicit ThinkingState(std::shared_ptr<const ThinkingBudget> budget);

  /// Reports the next token of the answer.
  void accept(int32_t token);
  /// Returns the tokens that must come next; empty if the next token is free. Valid as long as the budget.
  std::span<const int32_t> forced() const { return forced_; }

 private:
  void open(std::string_view behind);
  void look_for_opening();
  void look_for_closing();
  bool is_torn() const;
  void end_if_due();

  std::shared_ptr<const ThinkingBudget> budget_;
  std::span<const int32_t> forced_;
  std::string text_;      // the end of the text, as far as a tag may begin in it
  bool inside_ = false;   // the text is thinking
  bool may_open_ = true;  // thinking may open in the text that follows
  int n_used_ = 0;        // tokens of thinking so far
  int n_waited_ = 0;      // tokens since the limit was reached
  size_t longest_close_ = 0;
};

}  // namespace hearth
