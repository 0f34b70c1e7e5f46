// Compiles the format that a request requires of its answer to a constraint that the engine enforces.
//
// Each ApiContext has one ConstraintCompiler. Compiled constraints are cached, because clients send one
// schema with many requests. Thread-safe.
#pragma once

#include <functional>
#include <list>
#include <memory>
#include <span>
#include <string>
#include <utility>

#include "engine/constraint/constraint.h"
#include "engine/constraint/grammar/grammar.h"
#include "engine/constraint/mask/token_trie.h"
#include "kernels/base/mutex.h"
#include "server/chat/answer_format.h"
#include "server/chat/chat_form.h"

namespace hearth {

class ConstraintCompiler {
 public:
  /// The tokenizer must outlive the constraints. controls: ChatSyntax::control_tokens. Where the grammar of a
  /// chat requires the text of one of these control tokens, its constraint allows the token.
  ConstraintCompiler(const Tokenizer& tokenizer, std::span<const int32_t> controls);

  /// Returns the constraint on a text completion, or null for AnswerFormat::Kind::kText. Throws RequestError
  /// (400) if the format is malformed or cannot be enforced.
  std::shared_ptr<const Constraint> compile(const AnswerFormat& format) const;

  /// Returns the constraint on a chat's answer, or null if any answer is allowed. Schemas of tools that are
  /// not strict are enforced as far as possible. Throws RequestError (400) if the format, the schema of a
  /// strict tool, or their combination cannot be enforced.
  std::shared_ptr<const Constraint> compile(const ChatForm& form) const;

  /// The tokens of chats, with the text of the control tokens that were given to the constructor.
  const std::shared_ptr<const TokenTrie>& chat_tokens() const { return chat_trie_; }

 private:
  using Entry = std::pair<std::string, std::shared_ptr<const Constraint>>;

  /// key: identifies the grammar. make: creates the grammar if the key is not cached. Throws ConstraintError.
  std::shared_ptr<const Constraint> compile(const std::string& key, const std::function<Grammar()>& make,
                                            const std::shared_ptr<const TokenTrie>& trie) const;
  std::shared_ptr<const Constraint> find(const std::string& key) const;
  void keep(const std::string& key, std::shared_ptr<const Constraint> constraint) const;

  std::shared_ptr<const TokenTrie> trie_, chat_trie_;
  mutable Mutex mutex_;
  mutable std::list<Entry> entries_ HEARTH_GUARDED_BY(mutex_);  // most recently used first
};

}  // namespace hearth
