// See the header.
#include "server/api/request/unsupported_fields.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <string>

#include "server/json/api_error.h"

namespace hearth {
namespace {

constexpr RefusedField kRefusedForeign[] = {
    {"adaptive_target", "[-1]", "this server does not have this sampler"},
    {"allowed_token_ids", "[]",
     "constrain the answer with 'guided_regex' or 'guided_choice', or use 'logit_bias'"},
    {"audio", "[]", "the model writes text"},
    {"bad_words", "[]", "ban single tokens with 'logit_bias' instead"},
    {"cfg_scale", "[1]", "this server has no guidance by a second prompt"},
    {"chat_template", "[]", "templates run on the server, so only its owner sets one (--chat-template-file)"},
    {"detokenize", "[true]", "answers are text"},
    {"documents", "[]",
     "pass them with 'chat_template_kwargs' if the model's template takes them, else in a message"},
    {"epsilon_cutoff", "[0]", "use 'min_p' instead"},
    {"eta_cutoff", "[0]", "use 'min_p' or 'typical_p' instead"},
    {"function_call", R"(["auto", "none"])", "send 'tool_choice' instead"},
    {"grammar_lazy", "[false]", "a 'grammar' holds from the first token on"},
    {"guidance_scale", "[1]", "this server has no guidance by a second prompt"},
    {"include_reasoning", "[true]", "thinking is separate, in 'reasoning_content'; ignore it there"},
    {"include_stop_str_in_output", "[false]", "stop strings are never part of the text"},
    {"length_penalty", "[1, 0]", "it belongs to beam search, which this server does not have"},
    {"logprob_token_ids", "[]", "send 'logprobs', which lists the most likely tokens"},
    {"logits_processors", "[]", "this server runs no code of requests"},
    {"lora", "[]", "this server has no adapters"},
    {"n_probs", "[0]", "send 'logprobs' instead"},
    {"negative_prompt", "[]", "this server has no guidance by a second prompt"},
    {"parse_tool_calls", "[true]", "calls are always in 'tool_calls'"},
    {"post_sampling_probs", "[false]", "log-probabilities are the model's own"},
    {"prompt_embeds", "[]", "send the prompt as text or token ids"},
    {"prompt_logprobs", "[false]",
     "use /v1/completions with 'echo' and 'logprobs', which gives those of the prompt"},
    {"reasoning_format", R"(["auto", "deepseek"])", "thinking is in 'reasoning_content'"},
    {"reasoning_in_content", "[false]", "thinking is in 'reasoning_content'"},
    {"repetition_detection", "[]", "use 'repetition_penalty' or 'dry_multiplier'"},
    {"response_fields", "[]", "answers have all their members"},
    {"return_token_ids", "[false]", "send 'logprobs', which lists the tokens"},
    {"return_tokens", "[false]", "send 'logprobs', which lists the tokens"},
    {"return_tokens_as_token_ids", "[false]", "send 'logprobs', which lists the tokens' texts"},
    {"skip_special_tokens", "[true]", "control tokens are never part of the text"},
    {"smoothing_factor", "[0]", "this server does not have this sampler"},
    {"t_max_predict_ms", "[0, -1]", "bound the answer with 'max_tokens'"},
    {"tfs_z", "[1, 0]", "use 'typical_p' or 'min_p' instead"},
    {"top_a", "[0]", "use 'min_p' instead"},
    {"top_n_sigma", "[-1, 0]", "use 'min_p' instead"},
    {"truncation_side", R"(["left"])", "'truncate_prompt_tokens' keeps the end of a prompt"},
    {"use_beam_search", "[false]", "use 'best_of' with /v1/completions"},
    {"vllm_xargs", "[]", "this server has no plugins"},
    {"web_search_options", "[]", "this server does not search; give the model a tool that does"},
};

/// Parameters of chats that text completions do not have.
constexpr RefusedField kRefusedInCompletions[] = {
    {"reasoning_budget", "[-1]", "a text has no thinking; send a chat, or bound the text with 'max_tokens'"},
    {"thinking_budget", "[-1]", "a text has no thinking; send a chat, or bound the text with 'max_tokens'"},
    {"thinking_budget_tokens", "[-1]",
     "a text has no thinking; send a chat, or bound the text with 'max_tokens'"},
    {"thinking_token_budget", "[-1]",
     "a text has no thinking; send a chat, or bound the text with 'max_tokens'"},
};

bool is_empty(const Json& value) {
  return value.is_string() ? value.get_ref<const std::string&>().empty()
                           : value.is_structured() && value.empty();
}

/// Checks the types of parameters for accounts, billing, caches and logs of other servers. They have no
/// effect here.
void check_harmless(const RequestFields& fields) {
  for (const char* name : {"user", "service_tier", "safety_identifier", "prompt_cache_key",
                           "prompt_cache_retention", "cache_salt", "request_id"})
    fields.string(name);
  for (const char* name : {"store", "cache_prompt", "timings_per_token", "spaces_between_special_tokens"})
    fields.boolean(name);
  fields.object("metadata");
  for (const char* name : {"id_slot", "n_keep"})
    fields.integer(name, std::numeric_limits<int64_t>::min(), std::numeric_limits<int64_t>::max());
}

/// Refuses parameters of text completions in chats.
void refuse_of_completions(const RequestFields& fields) {
  if (fields.boolean("echo").value_or(false))
    refuse_param("echo", "'echo' belongs to /v1/completions; a chat's prompt is not repeated.");
  if (fields.integer("best_of", 0, std::numeric_limits<int64_t>::max()).value_or(1) > 1)
    refuse_param("best_of", "'best_of' belongs to /v1/completions; send 'n' and choose among the answers.");
  if (!fields.string("suffix").value_or("").empty())
    refuse_param("suffix", "'suffix' belongs to /v1/completions; send it there, or leave it out.");
}

}  // namespace

void refuse_fields(const RequestFields& fields, std::span<const RefusedField> refused) {
  for (const RefusedField& field : refused) {
    const Json* value = fields.find(field.name);
    if (value == nullptr || is_empty(*value)) continue;
    const Json neutral = Json::parse(field.neutral);
    if (std::ranges::find(neutral, *value) != neutral.end()) continue;
    const std::string param = fields.param(field.name);
    refuse_param(
        param,
        std::string("'").append(param).append("' is not supported: ").append(field.advice).append("."));
  }
}

void check_foreign_fields(const RequestFields& fields, bool chat) {
  refuse_fields(fields, kRefusedForeign);
  check_harmless(fields);
  fields.word("verbosity", {"low", "medium", "high"});
  if (!chat) return refuse_fields(fields, kRefusedInCompletions);
  refuse_of_completions(fields);
}

}  // namespace hearth
