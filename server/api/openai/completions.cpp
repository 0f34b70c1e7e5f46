// Parses the request's body and submits its sequences to the engine. Answer then sends the result.
#include "server/api/openai/completions.h"

#include <memory>
#include <string>
#include <utility>
#include <variant>

#include "server/api/answer/respond.h"
#include "server/api/constraint_compiler.h"
#include "server/api/openai/chat_request.h"
#include "server/api/openai/chat_shape.h"
#include "server/api/openai/completion_request.h"
#include "server/api/openai/completion_shape.h"
#include "server/api/request/fill_in_middle_prompt.h"

namespace hearth {
namespace {

/// The default of OpenAI's API for completions.
constexpr int kDefaultCompletionTokens = 16;

AnswerHead new_head(const ApiContext& api, std::string_view prefix, std::string model) {
  return {.id = api.new_id(prefix),
          .created = api.world().unix_seconds(),
          .model = std::move(model),
          .fingerprint = api.model().fingerprint};
}

PreparedPrompt prepare(const ApiContext& api, const CompletionRequest& asked, const Prompt& prompt) {
  const std::string* text = std::get_if<std::string>(&prompt);
  if (text != nullptr && !asked.generation.keep_prompt_tokens) {
    refuse_hopeless(*text, api.longest_token_bytes(), api.model().context_tokens, "prompt");
    refuse_hopeless(asked.suffix, api.longest_token_bytes(), api.model().context_tokens, "suffix");
  }
  if (text == nullptr || asked.suffix.empty())
    return prepare_prompt(prompt, asked.add_special_tokens, api.tokenizer());
  return prepare_fim_prompt({.prefix = *text, .suffix = asked.suffix, .begun = {}}, api.tokenizer());
}

}  // namespace

void completions(const ApiContext& api, const HttpRequest& request, std::string_view path_model,
                 ResponseWriter& writer) {
  read_and_answer(writer, ErrorStyle::kOpenAi, [&]() -> Reply {
    // 1. Parse and check the parameters.
    const Json body = parse_json_body(request.body);
    AnswerHead head = new_head(api, "cmpl-", api.model_name(body, path_model));
    CompletionRequest asked = parse_completion_request(body, api.limits());
    // 2. Tokenize the prompts.
    AnswerSpec spec;
    if (!asked.suffix.empty()) {
      require_fim(api.tokenizer(), "suffix");
      end_at_fim_tokens(asked.generation, api.tokenizer());
    }
    for (const Prompt& prompt : asked.prompts) spec.prompts.push_back(prepare(api, asked, prompt));
    // 3. Decide how to answer.
    spec.stream = asked.generation.stream;
    spec.n = asked.generation.n;
    spec.best_of = asked.best_of;
    spec.echo = asked.echo;
    spec.with_logprobs = asked.logprobs.has_value();
    spec.stop = asked.generation.stop;
    auto shape = std::make_unique<CompletionShape>(std::move(head), api.tokenizer(), asked.logprobs,
                                                   asked.generation.include_usage);
    // 4. Describe the engine's work. best_of compares log-probabilities, so they are computed even if the
    // client does not request them.
    const bool ranked = asked.best_of > asked.generation.n;
    const SequenceTemplate common{.generation = &asked.generation,
                                  .n_top_logprobs = asked.logprobs.value_or(ranked ? 0 : -1),
                                  .prompt_logprobs = asked.echo && asked.logprobs.has_value(),
                                  .constraint = api.constraints().compile(asked.generation.format)};
    const LengthRule length{
        .asked = asked.max_tokens, .default_tokens = kDefaultCompletionTokens, .prompt_param = "prompt"};
    return respond(api, request, std::move(spec), std::move(shape), common, length);
  });
}

void chat_completions(const ApiContext& api, const HttpRequest& request, std::string_view path_model,
                      ResponseWriter& writer) {
  read_and_answer(writer, ErrorStyle::kOpenAi, [&]() -> Reply {
    const Json body = parse_json_body(request.body);
    AnswerHead head = new_head(api, "chatcmpl-", api.model_name(body, path_model));
    const ChatRequest asked = parse_chat_request(body, api.limits());
    return respond_to_chat(api, request, asked,
                           std::make_unique<ChatShape>(std::move(head), api.tokenizer(), asked));
  });
}

}  // namespace hearth
