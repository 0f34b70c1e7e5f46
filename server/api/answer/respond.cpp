// See the header.
#include "server/api/answer/respond.h"

#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <variant>

#include "server/api/answer/answer.h"
#include "server/api/answer/engine_errors.h"
#include "server/api/chat_dialect.h"
#include "server/api/constraint_compiler.h"
#include "server/api/request/prediction.h"
#include "server/api/request/thinking_limit.h"
#include "server/http/error_response.h"

namespace hearth {
namespace {

/// The maximum wait for the first event. If the engine fails immediately, the failure arrives within this
/// time, and the client gets an error status. If it does not fail, the wait does not delay the first token,
/// which takes longer than this time.
constexpr std::chrono::milliseconds kFirstLook{10};

/// Returns the tokens of the request's prediction. Null if the request has no prediction or the engine does
/// not draft.
std::shared_ptr<const std::vector<int32_t>> prediction_of(const GenerationFields& generation,
                                                          const ApiContext& api) {
  if (!generation.prediction || !api.model().engine->status().speculates) return nullptr;
  return std::make_shared<const std::vector<int32_t>>(prediction_tokens(
      *generation.prediction, api.longest_token_bytes(), api.model().context_tokens, api.tokenizer()));
}

GenerationRequest make_generation(const AnswerSpec& spec, const SequenceTemplate& common,
                                  const LengthRule& length, uint64_t client, const ApiContext& api) {
  GenerationRequest request;
  request.client = client;
  request.priority = common.generation->priority;
  if (const std::optional<double>& seconds = common.generation->timeout_seconds) {
    request.deadline = std::chrono::steady_clock::now() +
                       std::chrono::ceil<std::chrono::milliseconds>(std::chrono::duration<double>(*seconds));
  }
  const auto prediction = prediction_of(*common.generation, api);
  for (const PreparedPrompt& prompt : spec.prompts) {
    const int max_tokens = decide_max_tokens(length, prompt.tokens.size(), api.model().context_tokens);
    for (int i = 0; i < spec.best_of; ++i) {
      const std::optional<uint64_t>& seed = common.generation->seed;
      const uint64_t choice_seed = seed ? *seed + static_cast<uint64_t>(i) : api.world().random_bits();
      request.sequences.push_back(make_sequence(common, prompt, max_tokens, choice_seed, api.tokenizer()));
      // A client that asked for fewer tokens than the context has room for gets as many, whatever they are.
      SequenceRequest& sequence = request.sequences.back();
      const bool fills_context =
          static_cast<int64_t>(sequence.prompt.size()) + max_tokens == api.model().context_tokens;
      sequence.ends_if_repeating =
          fills_context && sequence.constraint == nullptr && !common.generation->ignore_eos;
      request.sequences.back().prediction = prediction;
    }
  }
  return request;
}

int64_t count_tokens(const std::vector<PreparedPrompt>& prompts) {
  int64_t n = 0;
  for (const PreparedPrompt& prompt : prompts) n += static_cast<int64_t>(prompt.tokens.size());
  return n;
}

/// Throws RequestError if the model is an encoder or ranks texts.
void require_generation(const ApiContext& api) {
  if (api.model().generates()) return;
  if (api.model().ranks()) {
    refuse_param("model", "The model '" + api.model().names.front() +
                              "' ranks documents for a query and generates no text; send a query and "
                              "documents to /v1/rerank, and requests like this one to a server with a model "
                              "that generates.");
  }
  refuse_param("model",
               "The model '" + api.model().names.front() +
                   "' is an encoder, which makes embeddings and generates no text; send texts to "
                   "/v1/embeddings, and requests like this one to a server with a model that generates.");
}

}  // namespace

uint64_t client_number(const HttpRequest& request) { return std::hash<std::string>()(request.client); }

Reply respond(const ApiContext& api, const HttpRequest& request, AnswerSpec spec,
              std::unique_ptr<AnswerShape> shape, const SequenceTemplate& common, const LengthRule& length) {
  require_generation(api);
  const ErrorStyle style = shape->error_style();
  TokenGenerator& engine = *api.model().engine;
  if (const std::optional<int64_t> keep = common.generation->keep_prompt_tokens) {
    for (PreparedPrompt& prompt : spec.prompts)
      truncate_prompt(prompt, *keep, length, api.model().context_tokens, api.tokenizer());
  }
  std::variant<std::shared_ptr<TokenStream>, Refusal> submitted =
      engine.submit(make_generation(spec, common, length, client_number(request), api));
  if (const Refusal* refusal = std::get_if<Refusal>(&submitted)) {
    return refusal_response(*refusal, length.prompt_param, engine.status(), style);
  }
  spec.speculates = engine.status().speculates;
  spec.has_prediction = common.generation->prediction.has_value();
  shape->know_prompt(count_tokens(spec.prompts));
  spec.blank_line_interval = api.model().blank_line_interval;
  spec.model = api.model().names.front();
  spec.control = shape->accepted();
  if (spec.control) spec.control->attach(std::get<std::shared_ptr<TokenStream>>(submitted));
  auto answer =
      std::make_unique<Answer>(std::move(spec), std::move(shape), api.tokenizer(),
                               std::get<std::shared_ptr<TokenStream>>(std::move(submitted)), api.world().now);
  if (const std::optional<ApiError> failure = answer->look_ahead(kFirstLook))
    return failure_response(*failure, style);
  return answer;
}

Reply respond_to_chat(const ApiContext& api, const HttpRequest& request, const ChatRequest& asked,
                      std::unique_ptr<AnswerShape> shape) {
  require_generation(api);
  // 1. Render the conversation and tokenize it.
  AnswerSpec spec;
  RenderedChat chat = api.dialect().render(asked);
  if (!asked.generation.keep_prompt_tokens)
    refuse_hopeless(chat.prompt, api.longest_token_bytes(), api.model().context_tokens, "messages");
  spec.prompts.push_back(prepare_chat_prompt(chat.prompt, asked.add_generation_prompt, api.tokenizer()));
  // 2. Decide how to answer.
  spec.stream = asked.generation.stream;
  spec.n = asked.generation.n;
  spec.best_of = asked.generation.n;
  spec.with_logprobs = asked.logprobs;
  spec.stop = asked.generation.stop;
  // 3. Describe the engine's work.
  const SequenceTemplate common{
      .generation = &asked.generation,
      .n_top_logprobs = asked.logprobs ? asked.top_logprobs : -1,
      .prompt_logprobs = false,
      .constraint = api.constraints().compile(chat.form),
      .thinking = make_thinking_budget(chat.form, api.tokenizer(), api.constraints().chat_tokens())};
  const LengthRule length{.asked = asked.max_tokens,
                          .default_tokens = api.model().max_tokens_default,
                          .prompt_param = "messages"};
  if (chat.form.has_parts()) {
    spec.chat = std::move(chat.form);
    spec.call_id_seed = api.world().random_bits();
  }
  return respond(api, request, std::move(spec), std::move(shape), common, length);
}

HttpResponse json_response(const Json& json) {
  HttpResponse response;
  response.body = json_text(json);
  return response;
}

HttpResponse response_to_exception(ErrorStyle style) {
  try {
    throw;
  } catch (const RequestError& refused) {
    return error_response(refused.error(), style);
  }
}

}  // namespace hearth
