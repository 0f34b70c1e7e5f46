// See the header.
#include "server/api/request/fill_in_middle_prompt.h"

#include "server/json/api_error.h"

namespace hearth {
namespace {

/// Used in place of the names of the project and of the current file, which requests do not contain. Models
/// were trained on prompts with both names.
constexpr std::string_view kProjectName = "project\n";
constexpr std::string_view kFileName = "file\n";

using Tokens = std::vector<int32_t>;

void append(Tokens& out, const Tokens& tokens) { out.insert(out.end(), tokens.begin(), tokens.end()); }

Tokens plain(std::string_view text, const Tokenizer& tokenizer) {
  return text.empty() ? Tokens() : tokenizer.encode(text, false, false);
}

/// Returns the tokens of text.files, then the file token and the name of the current file, which contains the
/// gap. Returns no tokens if there are no other files.
Tokens file_tokens(const FimText& text, const Tokenizer& tokenizer) {
  const FimTokens& fim = tokenizer.fim();
  Tokens out;
  if (text.files.empty()) return out;
  if (fim.repo >= 0) {
    out.push_back(fim.repo);
    append(out, plain(kProjectName, tokenizer));
  }
  for (const FimFile& file : text.files) {
    out.push_back(fim.file);
    append(out, plain(file.name + "\n", tokenizer));
    append(out, plain(file.text, tokenizer));
  }
  out.push_back(fim.file);
  append(out, plain(kFileName, tokenizer));
  return out;
}

}  // namespace

void require_fim(const Tokenizer& tokenizer, std::string_view param) {
  if (tokenizer.fim().can_fill()) return;
  refuse_param(param, "'" + std::string(param) +
                          "' needs a model that can fill in the middle of a text; this one has no tokens for "
                          "that. Leave it out, or serve a model for code.");
}

PreparedPrompt prepare_fim_prompt(const FimText& text, const Tokenizer& tokenizer) {
  const FimTokens& fim = tokenizer.fim();
  PreparedPrompt prompt;
  const Tokens begin = tokenizer.encode("", true, false);
  if (!begin.empty() && begin.front() == tokenizer.bos()) prompt.tokens.push_back(tokenizer.bos());
  append(prompt.tokens, file_tokens(text, tokenizer));

  Tokens before = {fim.prefix}, after = {fim.suffix};
  append(before, plain(text.prefix, tokenizer));
  append(before, plain(text.begun, tokenizer));
  append(after, plain(text.suffix, tokenizer));
  const bool suffix_first = fim.suffix_first || text.suffix_first;
  append(prompt.tokens, suffix_first ? after : before);
  append(prompt.tokens, suffix_first ? before : after);
  if (fim.middle >= 0) prompt.tokens.push_back(fim.middle);
  return prompt;
}

void end_at_fim_tokens(GenerationFields& generation, const Tokenizer& tokenizer) {
  if (generation.keep_prompt_tokens)
    refuse_param("truncate_prompt_tokens",
                 "'truncate_prompt_tokens' would cut off the token that begins a prompt with a gap; send a "
                 "shorter prefix.");
  if (generation.ignore_eos) return;
  append(generation.stop_token_ids, tokenizer.fim().all());
}

}  // namespace hearth
