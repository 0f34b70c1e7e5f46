// Compiles what a request demands of its answer into the constraint that the engine enforces.
//
// One per process, made when the model is loaded. It caches compiled constraints, because a program sends the
// same schema with every request. Thread-safe.
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
  /// The tokenizer must outlive the constraints. controls: ChatSyntax::control_tokens, which stand for their
  /// text in grammars of chats.
  ConstraintCompiler(const Tokenizer& tokenizer, std::span<const int32_t> controls);

  /// The constraint on a completion, or null for AnswerFormat::Kind::kText. Throws RequestError (400) if the
  /// format is malformed or cannot be enforced.
  std::shared_ptr<const Constraint> compile(const AnswerFormat& format) const;

  /// The constraint on the answer of a chat, or null if it may be anything. Schemas of tools that are not
  /// strict are enforced as far as possible. Throws RequestError (400) if the format, a strict tool's schema,
  /// or all together cannot be enforced.
  std::shared_ptr<const Constraint> compile(const ChatForm& form) const;

 private:
  using Entry = std::pair<std::string, std::shared_ptr<const Constraint>>;

  /// key: identifies the grammar. make: called if the key is not cached. Throws ConstraintError.
  std::shared_ptr<const Constraint> compile(const std::string& key, const std::function<Grammar()>& make,
                                            const std::shared_ptr<const TokenTrie>& trie) const;
  std::shared_ptr<const Constraint> find(const std::string& key) const;
  void keep(const std::string& key, std::shared_ptr<const Constraint> constraint) const;

  std::shared_ptr<const TokenTrie> trie_, chat_trie_;
  mutable Mutex mutex_;
  mutable std::list<Entry> entries_ HEARTH_GUARDED_BY(mutex_);  // most recently used first
};

}  // namespace hearth
