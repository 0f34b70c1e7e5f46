#include "server/api/constraint_compiler.h"

#include <algorithm>

#include "engine/constraint/automaton/automaton.h"
#include "server/chat/tools/tool_grammar.h"
#include "server/chat/tools/tool_schemas.h"
#include "server/json/api_error.h"

namespace hearth {
namespace {

/// A client uses few formats. The masks of each constraint use up to several MB.
constexpr size_t kMostEntries = 32;
/// A key contains the request's tools, which may have megabytes. Constraints with longer keys are not cached.
constexpr size_t kMostKeyBytes = size_t{1} << 20;

/// Throws RequestError if the format cannot be enforced, even without tools.
void check_format(const AnswerFormat& format) {
  try {
    Automaton(format_grammar(format), 0);
  } catch (const ConstraintError& error) {
    refuse_constraint(format.param, error);
  }
}

/// Returns the cache key of a form. If two forms of one model have equal keys, they have equal grammars.
std::string chat_key(const ChatForm& form) {
  return "chat:" + std::to_string(static_cast<int>(form.choice.mode)) +
         std::to_string(static_cast<int>(form.thinking)) + (form.choice.parallel ? "p" : "s") +
         json_text(form.choice.allowed) + format_key(form.format) + json_text(form.choice.tools) +
         json_text(form.choice.schemas);
}

/// Throws ConstraintError if no answer can begin under the constraint. Without this check, the engine would
/// accept such a request and fail at the first token.
void check_beginning(const std::shared_ptr<const Constraint>& constraint) {
  ConstraintState state(constraint);
  if (state.mask().none() && !state.may_end()) {
    throw ConstraintError("This model's vocabulary has no token that such a text can begin with.", "");
  }
}

}  // namespace

ConstraintCompiler::ConstraintCompiler(const Tokenizer& tokenizer, std::span<const int32_t> controls)
    : trie_(TokenTrie::from_tokenizer(tokenizer)),
      chat_trie_(controls.empty() ? trie_ : TokenTrie::from_tokenizer(tokenizer, controls)) {}

std::shared_ptr<const Constraint> ConstraintCompiler::compile(const AnswerFormat& format) const {
  if (format.kind == AnswerFormat::Kind::kText) return nullptr;
  try {
    return compile(
        "format:" + format_key(format), [&] { return format_grammar(format); }, trie_);
  } catch (const ConstraintError& error) {
    refuse_constraint(format.param, error);
  }
}

std::shared_ptr<const Constraint> ConstraintCompiler::compile(const ChatForm& form) const {
  if (!form.has_parts()) return compile(form.format);
  if (!form.has_format() && !form.may_call()) return nullptr;
  const auto compile_tools = [&](bool all_loose) {
    const auto make = [&] {
      return build_tool_grammar(form, grammar_tools(form.choice.tools, all_loose,
                                                    form.syntax.calls.string_mark, form.choice.schemas));
    };
    return compile(chat_key(form), make, chat_trie_);
  };
  try {
    return compile_tools(false);
  } catch (const ConstraintError& error) {
    if (form.has_format() && !form.may_call()) refuse_constraint(form.format.param, error);
    if (form.has_format()) check_format(form.format);
    if (std::ranges::any_of(form.choice.tools, is_strict)) refuse_constraint("tools", error);
  }
  try {
    return compile_tools(true);  // each schema can be enforced, but all schemas together are too large
  } catch (const ConstraintError& error) {
    refuse_constraint("tools", error);
  }
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
    return;  // another thread has compiled it
  entries_.emplace_front(key, std::move(constraint));
  if (entries_.size() > kMostEntries) entries_.pop_back();
}

}  // namespace hearth
