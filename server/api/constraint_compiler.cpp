#include "server/api/constraint_compiler.h"

#include <algorithm>
#include <vector>

#include "engine/constraint/grammar/gbnf.h"
#include "engine/constraint/regex/regex.h"
#include "engine/constraint/schema/json_schema.h"
#include "server/json/api_error.h"

namespace hearth {
namespace {

using Kind = AnswerFormat::Kind;

/// A program uses a handful of formats; each takes up to some MB of masks.
constexpr size_t kMostEntries = 32;
/// A key contains the request's tools, which may be megabytes. Constraints with longer keys are not cached.
constexpr size_t kMostKeyBytes = size_t{1} << 20;

Grammar::Expr write_utf8(Grammar& grammar, std::span<const CharRange> ranges) {
  return grammar.character(ranges);
}

/// Refuses a constraint that would fail at the first token, instead of accepting the request and breaking it
/// off.
void check_beginning(const std::shared_ptr<const Constraint>& constraint) {
  ConstraintState state(constraint);
  if (state.mask().none() && !state.may_end()) {
    throw ConstraintError("This model's vocabulary has no token that such a text can begin with.", "");
  }
}

}  // namespace

/// Lengths precede the joined texts, so different formats have different keys.
std::string format_key(const AnswerFormat& format) {
  std::string key = std::to_string(static_cast<int>(format.kind)) + ":" + std::to_string(format.text.size()) +
                    ":" + format.text;
  for (const std::string& choice : format.choices) key += std::to_string(choice.size()) + ":" + choice;
  return key;
}

Grammar::Expr format_expression(Grammar& grammar, const AnswerFormat& format) {
  switch (format.kind) {
    case Kind::kJsonSchema:
      return json_schema_expression(grammar, format.text);
    case Kind::kRegex:
      return regex_expression(grammar, format.text, write_utf8, RegexMatch::kWhole);
    case Kind::kGrammar:
      return gbnf_expression(grammar, format.text);
    case Kind::kChoice: {
      std::vector<Grammar::Expr> options;
      for (const std::string& choice : format.choices) options.push_back(grammar.literal(choice));
      return grammar.choice(options);
    }
    case Kind::kText:
    case Kind::kJsonObject:
      break;
  }
  return json_object_expression(grammar);
}

Grammar format_grammar(const AnswerFormat& format) {
  Grammar grammar;
  const Grammar::Rule root = grammar.declare("root");
  grammar.define(root, format_expression(grammar, format));
  grammar.set_root(root);
  return grammar;
}

void refuse_constraint(const std::string& param, const ConstraintError& error) {
  const std::string where = error.where().empty() ? "" : " (at " + error.where() + ")";
  refuse_param(param, "'" + param + "' cannot be enforced" + where + ": " + error.what());
}

ConstraintCompiler::ConstraintCompiler(const Tokenizer& tokenizer, std::span<const int32_t> controls)
    : trie_(TokenTrie::from_tokenizer(tokenizer)),
      chat_trie_(controls.empty() ? trie_ : TokenTrie::from_tokenizer(tokenizer, controls)) {}

std::shared_ptr<const Constraint> ConstraintCompiler::compile(const AnswerFormat& format) const {
  if (format.kind == Kind::kText) return nullptr;
  try {
    return compile(
        "format:" + format_key(format), [&] { return format_grammar(format); }, trie_);
  } catch (const ConstraintError& error) {
    refuse_constraint(format.param, error);
  }
}

std::shared_ptr<const Constraint> ConstraintCompiler::compile_chat(
    const std::string& key, const std::function<Grammar()>& make) const {
  return compile("chat:" + key, make, chat_trie_);
}

std::shared_ptr<const Constraint> ConstraintCompiler::compile(
    const std::string& key, const std::function<Grammar()>& make,
    const std::shared_ptr<const TokenTrie>& trie) const {
  if (std::shared_ptr<const Constraint> known = find(key)) return known;
  std::shared_ptr<const Constraint> constraint = Constraint::compile(make(), trie);
  check_beginning(constraint);
  keep(key, constraint);
  return constraint;
}

std::shared_ptr<const Constraint> ConstraintCompiler::find(const std::string& key) const {
  const MutexLock lock(mutex_);
  const auto entry = std::ranges::find(entries_, key, &Entry::first);
  if (entry == entries_.end()) return nullptr;
  entries_.splice(entries_.begin(), entries_, entry);
  return entry->second;
}

void ConstraintCompiler::keep(const std::string& key, std::shared_ptr<const Constraint> constraint) const {
  if (key.size() > kMostKeyBytes) return;
  const MutexLock lock(mutex_);
  if (std::ranges::find(entries_, key, &Entry::first) != entries_.end())
    return;  // another thread compiled it meanwhile
  entries_.emplace_front(key, std::move(constraint));
  if (entries_.size() > kMostEntries) entries_.pop_back();
}

}  // namespace hearth
