// From the format that a request asks for to the constraint that the engine keeps to.
//
// One for the process, made when the model is loaded. Compiled constraints are kept, because the same schema comes with
// every request of a program. Thread-safe.
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
#include "server/api/request/constraint_fields.h"

namespace hearth {

/// The texts of a format, alone and as a part of a larger grammar. Each throws ConstraintError. REQUIRES: not kText.
Grammar format_grammar(const AnswerFormat& format);
Grammar::Expr format_expression(Grammar& grammar, const AnswerFormat& format);

/// The same for formats with the same texts, and only for those.
std::string format_key(const AnswerFormat& format);

/// Throws RequestError (400): what cannot be enforced, in which parameter, and where in it.
[[noreturn]] void refuse_constraint(const std::string& param, const ConstraintError& error);

class ConstraintCompiler {
 public:
  /// The tokenizer must outlive the constraints. controls: control tokens that stand for their text in grammars of tool
  /// calls and thinking.
  ConstraintCompiler(const Tokenizer& tokenizer, std::span<const int32_t> controls);

  /// Null for AnswerFormat::Kind::kText. Throws RequestError (400) for what is malformed or cannot be enforced.
  std::shared_ptr<const Constraint> compile(const AnswerFormat& format) const;

  /// The same for a grammar of answers with tool calls or thinking. key: the same for the same grammar. make: called if it
  /// is not known yet. Throws ConstraintError.
  std::shared_ptr<const Constraint> compile_chat(const std::string& key,
                                                 const std::function<Grammar()>& make) const;

 private:
  using Entry = std::pair<std::string, std::shared_ptr<const Constraint>>;

  std::shared_ptr<const Constraint> compile(const std::string& key, const std::function<Grammar()>& make,
                                            const std::shared_ptr<const TokenTrie>& trie) const;
  std::shared_ptr<const Constraint> find(const std::string& key) const;
  void keep(const std::string& key, std::shared_ptr<const Constraint> constraint) const;

  std::shared_ptr<const TokenTrie> trie_, chat_trie_;
  mutable Mutex mutex_;
  mutable std::list<Entry> entries_ HEARTH_GUARDED_BY(mutex_);  // the last used one first
};

}  // namespace hearth
