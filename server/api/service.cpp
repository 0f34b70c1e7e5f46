// From a request's bytes to an accepted generation, in numbered steps; then Answer takes over.
#include "server/api/service.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <exception>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "server/api/answer.h"
#include "server/api/answer_json.h"
#include "server/api/chat_dialect.h"
#include "server/api/chat_request.h"
#include "server/api/completion_request.h"
#include "server/api/constraint_compiler.h"
#include "server/api/error.h"
#include "server/api/prompt_tokens.h"
#include "server/chat/chat_template.h"

namespace hearth {
namespace {

/// If the engine fails at once, it says so within this time and an error status can still be sent. Other
/// requests lose nothing, because their first token takes longer.
constexpr std::chrono::milliseconds kFirstLook{10};
/// OpenAI's default for completions.
constexpr int kDefaultCompletionTokens = 16;
/// Long enough for a restart to begin, so that the retry does not reach the server that is stopping.
constexpr const char* kStoppingRetrySeconds = "5";

HttpResponse retry_response(const ApiError& error, std::string retry_seconds) {
  HttpResponse response = error_response(error);
  response.headers.emplace_back("Retry-After", std::move(retry_seconds));
  return response;
}

/// The response to a request that the engine had accepted and then failed.
HttpResponse failure_response(const ApiError& failure) {
  return failure.status == 503 ? retry_response(failure, kStoppingRetrySeconds) : error_response(failure);
}

/// The response to a request that the engine did not accept.
HttpResponse refusal_response(Refusal refusal, std::string_view prompt_param, const EngineStatus& engine) {
  if (engine.failed) {
    return retry_response(
        {.status = 503,
         .message = "The engine has failed and the server is ending; try again when it is back.",
         .param = {},
         .code = "engine_failed"},
        kStoppingRetrySeconds);
  }
  switch (refusal) {
    case Refusal::kQueueFull:
      return retry_response(
          {.status = 429,
           .message = "The server is busy and its queue is full; Retry-After says when to try "
                      "again.",
           .param = {},
           .code = "queue_full"},
          std::to_string(retry_after_seconds(engine.mean_service_seconds, engine.n_waiting, engine.n_slots)));
    case Refusal::kStopping:
      return retry_response({.status = 503,
                             .message = "The server is stopping; try again when it is back.",
                             .param = {},
                             .code = "server_stopping"},
                            kStoppingRetrySeconds);
    case Refusal::kContextExceeded:
      break;  // checked before; the engine's own limit may be lower
  }
  return error_response({.status = 400,
                         .message = "Prompt and completion exceed the context of this model.",
                         .param = std::string(prompt_param),
                         .code = "context_length_exceeded"});
}

ApiError unknown_model(const ServedModel& model, std::string_view name) {
  std::string served;
  for (const std::string& known : model.names) {
    served += served.empty() ? "'" : ", '";
    served += known;
    served += "'";
  }
  constexpr size_t kShownBytes = 100;  // enough to recognise the name
  std::string message = "The model '";
  message.append(name.substr(0, kShownBytes)).append(name.size() > kShownBytes ? "..." : "");
  message.append("' does not exist here; this server has ").append(served).append(".");
  return {.status = 404, .message = std::move(message), .param = "model", .code = "model_not_found"};
}

/// The model that the body names, else the one that the path names; empty: none.
std::string asked_model(const Json& body, std::string_view path_model) {
  std::string name = read_model_name(RequestFields(body));
  return name.empty() ? std::string(path_model) : name;
}

/// The name to answer with. Throws RequestError (404).
std::string served_name(const ServedModel& model, const std::string& asked) {
  if (asked.empty()) return model.names.front();
  const bool known = std::find(model.names.begin(), model.names.end(), asked) != model.names.end();
  if (!known && !model.any_name) throw RequestError(unknown_model(model, asked));
  return asked;
}

std::string new_id(const char* prefix, const ApiWorld& world) {
  constexpr char kHex[] = "0123456789abcdef";
  std::string id = prefix;
  for (int word = 0; word < 2; ++word) {
    for (uint64_t bits = world.random_bits(), digit = 0; digit < 16; ++digit, bits >>= 4)
      id += kHex[bits & 15];
  }
  return id;
}

AnswerHead new_head(bool chat, std::string model_name, const ServedModel& model, const ApiWorld& world) {
  return {.chat = chat,
          .id = new_id(chat ? "chatcmpl-" : "cmpl-", world),
          .created = world.unix_seconds(),
          .model = std::move(model_name),
          .fingerprint = model.fingerprint};
}

/// Sequences for every prompt. Choices of one prompt differ by their seed; the same prompt, seed and choice
/// give the same text whatever else is in the request.
GenerationRequest make_generation(const AnswerSpec& spec, const SequenceTemplate& common,
                                  const LengthRule& length, const ServedModel& model, const ApiWorld& world) {
  GenerationRequest request;
  for (const PreparedPrompt& prompt : spec.prompts) {
    const int max_tokens = decide_max_tokens(length, prompt.tokens.size(), model.context_tokens);
    for (int i = 0; i < spec.best_of; ++i) {
      const std::optional<uint64_t>& seed = common.generation->seed;
      const uint64_t choice_seed = seed ? *seed + static_cast<uint64_t>(i) : world.random_bits();
      request.sequences.push_back(make_sequence(common, prompt, max_tokens, choice_seed, *model.tokenizer));
    }
  }
  return request;
}

/// Submits the request to the engine and makes the response from its first reaction.
HttpResponse answer(AnswerSpec spec, GenerationRequest generation, std::string_view prompt_param,
                    const ServedModel& model, const ApiWorld& world) {
  std::variant<std::shared_ptr<TokenStream>, Refusal> submitted = model.engine->submit(std::move(generation));
  if (const Refusal* refusal = std::get_if<Refusal>(&submitted)) {
    return refusal_response(*refusal, prompt_param, model.engine->status());
  }
  spec.blank_line_interval = model.blank_line_interval;
  const bool stream = spec.stream;
  // Shared because std::function must be copyable; the last copy to go cancels what still runs.
  const auto answer =
      std::make_shared<Answer>(std::move(spec), *model.tokenizer,
                               std::get<std::shared_ptr<TokenStream>>(std::move(submitted)), world.now);
  if (const std::optional<ApiError> failure = answer->look_ahead(kFirstLook)) {
    return failure_response(*failure);
  }
  HttpResponse response;
  if (stream) {
    response.content_type = "text/event-stream";
    response.headers.emplace_back("Cache-Control", "no-cache");
    response.headers.emplace_back("X-Accel-Buffering", "no");  // nginx would hold the stream back
  }
  if (!stream) {
    response.before_status = [answer](ResponseClient& client) -> std::optional<HttpResponse> {
      if (const std::optional<ApiError> failure = answer->await(client)) return failure_response(*failure);
      std::optional<std::string> body = answer->whole(client);
      if (!body) return std::nullopt;
      HttpResponse whole;
      whole.body = std::move(*body);
      return whole;
    };
  }
  response.produce = [answer](ResponseSink& sink) { return answer->produce(sink); };
  return response;
}

/// Runs a handler and turns its exceptions into error responses.
template <typename Handler>
HttpResponse guarded(Handler handler) {
  try {
    return handler();
  } catch (const RequestError& refused) {
    return error_response(refused.error());
  } catch (const std::exception& error) {
    return error_response(
        {.status = 500,
         .message = std::string("The server met an error of its own: ").append(error.what()),
         .param = {},
         .code = "internal_error"});
  }
}

/// An extension to OpenAI's model object: how the FFN is computed and what that saves. Shares are of all FFN
/// neurons, as measured at load.
Json sparsity_json(const SparsityReport& report) {
  Json json = Json::object();
  json["mode"] = std::string(sparsity_name(report.mode));
  json["reason"] = report.reason;
  if (report.activity.n_tokens > 0) json["active_share"] = report.activity.active;
  if (report.mode == Sparsity::kPredicted) {
    json["proposed_share"] = report.activity.proposed;
    json["predictor_threshold"] = report.predictor_threshold;
  }
  json["bytes_per_token"] = std::llround(report.bytes_per_token);
  json["dense_bytes_per_token"] = std::llround(report.dense_bytes_per_token);
  return json;
}

Json model_json(const ServedModel& model, std::string_view name) {
  Json json = Json::object();
  json["id"] = name;
  json["object"] = "model";
  json["created"] = model.created;
  json["owned_by"] = model.owned_by;
  json["max_model_len"] = model.context_tokens;
  json["device"] = model.device;
  json["sparsity"] = sparsity_json(model.sparsity);
  return json;
}

}  // namespace

ApiWorld ApiWorld::real() {
  return {
      .unix_seconds =
          [] {
            const auto since_epoch = std::chrono::system_clock::now().time_since_epoch();
            return static_cast<int64_t>(
                std::chrono::duration_cast<std::chrono::seconds>(since_epoch).count());
          },
      .now = [] { return std::chrono::steady_clock::now(); },
      .random_bits =
          [] {
            // Ids must not repeat between threads or restarts, so each thread's generator is seeded by the
            // system.
            thread_local std::mt19937_64 generator{[] {
              std::random_device device;
              return (static_cast<uint64_t>(device()) << 32) | device();
            }()};
            return generator();
          },
  };
}

ApiService::ApiService(ServedModel model, ApiWorld world)
    : model_(std::move(model)),
      world_(std::move(world)),
      longest_token_bytes_(longest_token_bytes(*model_.tokenizer)),
      dialect_(std::make_unique<const ChatDialect>(model_.chat_template, *model_.tokenizer)),
      constraints_(
          std::make_unique<const ConstraintCompiler>(*model_.tokenizer, dialect_->control_tokens())) {}

ApiService::~ApiService() = default;

RequestLimits ApiService::limits() const {
  return {.n_vocab = model_.tokenizer->n_vocab(), .tokenizer = model_.tokenizer};
}

HttpResponse ApiService::completions(const HttpRequest& request, std::string_view path_model) const {
  return guarded([&] {
    // 1. Bytes to checked parameters.
    const Json body = parse_json_body(request.body);
    std::string name = served_name(model_, asked_model(body, path_model));
    CompletionRequest asked = parse_completion_request(body, limits());
    // 2. Prompts to tokens.
    AnswerSpec spec;
    spec.head = new_head(false, std::move(name), model_, world_);
    for (const Prompt& prompt : asked.prompts) {
      if (const std::string* text = std::get_if<std::string>(&prompt)) {
        refuse_hopeless(*text, longest_token_bytes_, model_.context_tokens, "prompt");
      }
      spec.prompts.push_back(prepare_prompt(prompt, asked.add_special_tokens, *model_.tokenizer));
    }
    // 3. How to answer.
    spec.stream = asked.generation.stream;
    spec.include_usage = asked.generation.include_usage;
    spec.n = asked.generation.n;
    spec.best_of = asked.best_of;
    spec.echo = asked.echo;
    spec.n_logprobs = asked.logprobs;
    spec.stop = asked.generation.stop;
    // 4. What the engine is to do; best_of ranks by log-probabilities nobody may have asked for.
    const bool ranked = asked.best_of > asked.generation.n;
    const SequenceTemplate common{.generation = &asked.generation,
                                  .n_top_logprobs = asked.logprobs.value_or(ranked ? 0 : -1),
                                  .prompt_logprobs = asked.echo && asked.logprobs.has_value(),
                                  .constraint = constraints_->compile(asked.generation.format)};
    const LengthRule length{
        .asked = asked.max_tokens, .default_tokens = kDefaultCompletionTokens, .prompt_param = "prompt"};
    GenerationRequest generation = make_generation(spec, common, length, model_, world_);
    return answer(std::move(spec), std::move(generation), length.prompt_param, model_, world_);
  });
}

HttpResponse ApiService::chat_completions(const HttpRequest& request, std::string_view path_model) const {
  return guarded([&] {
    // 1. Bytes to checked parameters.
    const Json body = parse_json_body(request.body);
    std::string name = served_name(model_, asked_model(body, path_model));
    const ChatRequest asked = parse_chat_request(body, limits());
    // 2. Messages to tokens.
    AnswerSpec spec;
    spec.head = new_head(true, std::move(name), model_, world_);
    const std::string rendered = dialect_->render(asked);
    refuse_hopeless(rendered, longest_token_bytes_, model_.context_tokens, "messages");
    spec.prompts.push_back(prepare_chat_prompt(rendered, asked.add_generation_prompt, *model_.tokenizer));
    // 3. How to answer.
    spec.stream = asked.generation.stream;
    spec.include_usage = asked.generation.include_usage;
    spec.n = asked.generation.n;
    spec.best_of = asked.generation.n;
    if (asked.logprobs) spec.n_logprobs = asked.top_logprobs;
    spec.stop = asked.generation.stop;
    if (dialect_->has_parts(asked)) {
      spec.reading = dialect_->reading(asked, rendered, world_.random_bits());
      spec.shown_tokens = dialect_->control_tokens();
    }
    // 4. What the engine is to do.
    const SequenceTemplate common{.generation = &asked.generation,
                                  .n_top_logprobs = spec.n_logprobs.value_or(-1),
                                  .prompt_logprobs = false,
                                  .constraint = dialect_->constraint(asked, rendered, *constraints_)};
    const LengthRule length{
        .asked = asked.max_tokens, .default_tokens = model_.max_tokens_default, .prompt_param = "messages"};
    GenerationRequest generation = make_generation(spec, common, length, model_, world_);
    return answer(std::move(spec), std::move(generation), length.prompt_param, model_, world_);
  });
}

HttpResponse ApiService::list_models() const {
  Json models = Json::array();
  for (const std::string& name : model_.names) models.push_back(model_json(model_, name));
  Json list = Json::object();
  list["object"] = "list";
  list["data"] = std::move(models);
  HttpResponse response;
  response.body = json_text(list);
  return response;
}

HttpResponse ApiService::retrieve_model(std::string_view id) const {
  return guarded([&] {
    HttpResponse response;
    response.body = json_text(model_json(model_, served_name(model_, std::string(id))));
    return response;
  });
}

}  // namespace hearth
