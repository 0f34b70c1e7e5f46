// Parses the request's JSON and submits its sequences to the engine. EmbeddingAnswer then sends the vectors.
#include "server/api/openai/embeddings.h"

#include <algorithm>
#include <memory>
#include <utility>
#include <variant>

#include "server/api/answer/engine_errors.h"
#include "server/api/answer/respond.h"
#include "server/api/openai/embedding_answer.h"
#include "server/api/openai/embedding_request.h"
#include "server/api/request/prompt_tokens.h"
#include "server/json/api_error.h"

namespace hearth {
namespace {

[[noreturn]] void refuse_length(size_t index, size_t n_tokens, int context_tokens) {
  refuse_param(
      "input",
      "This model's maximum context length is " + std::to_string(context_tokens) +
          " tokens. However, input " + std::to_string(index) + " has " + std::to_string(n_tokens) +
          ". Please shorten it, or send 'truncate_prompt_tokens': -1 to embed the end of it that fits.",
      "context_length_exceeded");
}

/// Keeps n_kept tokens: the first ones if keeps_start is true, otherwise the last ones.
void cut(std::vector<int32_t>& tokens, size_t n_kept, bool keeps_start) {
  if (tokens.size() <= n_kept) return;
  if (keeps_start) {
    tokens.resize(n_kept);
  } else {
    tokens.erase(tokens.begin(), tokens.end() - static_cast<std::ptrdiff_t>(n_kept));
  }
}

/// Tokenizes a text for an encoder. Truncates only the text between the begin and end tokens, because
/// embeddings are poor without these two tokens.
std::vector<int32_t> cut_between_ends(const std::string& text, const Tokenizer& tokenizer, size_t n_kept,
                                      bool keeps_start) {
  const std::vector<int32_t> ends = tokenizer.encode("", true, false);
  std::vector<int32_t> tokens = tokenizer.encode(text, false, true);
  cut(tokens, n_kept - ends.size(), keeps_start);
  const bool begins = !ends.empty() && (ends.size() > 1 || ends.front() == tokenizer.bos());
  if (begins) tokens.insert(tokens.begin(), ends.front());
  if (ends.size() > (begins ? 1U : 0U)) tokens.push_back(ends.back());
  return tokens;
}

/// Returns the tokens of an input, truncated if the request asks for truncation.
std::vector<int32_t> tokens_of(Prompt input, const EmbeddingRequest& asked, const EmbeddingTarget& target) {
  std::vector<int32_t> tokens;
  const std::string* const text = std::get_if<std::string>(&input);
  if (text != nullptr) {
    if (!asked.n_kept_tokens)
      refuse_hopeless(*text, target.longest_token_bytes, target.context_tokens, "input");
    tokens = target.tokenizer->encode(*text, asked.add_special_tokens, true);
  } else {
    tokens = std::get<std::vector<int32_t>>(std::move(input));
  }
  if (!asked.n_kept_tokens) return tokens;
  const size_t n_kept = *asked.n_kept_tokens < 0 ? static_cast<size_t>(target.context_tokens)
                                                 : static_cast<size_t>(*asked.n_kept_tokens);
  if (text != nullptr && target.looks_ahead && asked.add_special_tokens && tokens.size() > n_kept &&
      n_kept > 2)
    return cut_between_ends(*text, *target.tokenizer, n_kept, asked.keeps_start);
  cut(tokens, n_kept, asked.keeps_start);
  return tokens;
}

/// Creates one sequence per input. Moves the inputs out of `asked`.
GenerationRequest make_request(EmbeddingRequest& asked, const EmbeddingTarget& target) {
  GenerationRequest request;
  for (size_t i = 0; i < asked.inputs.size(); ++i) {
    SequenceRequest sequence;
    sequence.prompt = tokens_of(std::move(asked.inputs[i]), asked, target);
    sequence.max_tokens = 0;
    sequence.embedding = target.pooling;
    if (sequence.prompt.empty()) {
      refuse_param("input", "Input " + std::to_string(i) + " has no tokens, so there is nothing to embed.");
    }
    if (sequence.prompt.size() > static_cast<size_t>(target.context_tokens)) {
      refuse_length(i, sequence.prompt.size(), target.context_tokens);
    }
    request.sequences.push_back(std::move(sequence));
  }
  return request;
}

}  // namespace

Reply respond_with_embeddings(const ApiContext& api, const HttpRequest& from, const EmbeddingTarget& target,
                              EmbeddingRequest asked, EmbeddingAnswer::Spec spec) {
  if (target.ranks()) {
    refuse_param("model", "The model '" + target.names.front() +
                              "' ranks documents for a query and gives no embeddings; send the texts to "
                              "/v1/rerank, or load a model that embeds with --embedding-model.");
  }
  return respond_with_results(api, from, target, make_request(asked, target), std::move(spec), "input");
}

Reply respond_with_results(const ApiContext& api, const HttpRequest& from, const EmbeddingTarget& target,
                           GenerationRequest request, EmbeddingAnswer::Spec spec, const char* param) {
  request.client = client_number(from);
  spec.n_inputs = request.sequences.size();
  spec.served_model = target.names.front();
  spec.blank_line_interval = api.model().blank_line_interval;
  for (const SequenceRequest& sequence : request.sequences)
    spec.n_prompt_tokens += static_cast<int64_t>(sequence.prompt.size());
  std::variant<std::shared_ptr<TokenStream>, Refusal> submitted = target.engine->submit(std::move(request));
  if (const Refusal* refusal = std::get_if<Refusal>(&submitted))
    return refusal_response(*refusal, param, target.engine->status(), spec.errors);
  return std::make_unique<EmbeddingAnswer>(
      std::move(spec), std::get<std::shared_ptr<TokenStream>>(std::move(submitted)), api.world().now);
}

void embeddings(const ApiContext& api, const HttpRequest& http, std::string_view path_model,
                ResponseWriter& writer) {
  read_and_answer(writer, ErrorStyle::kOpenAi, [&]() -> Reply {
    const Json body = parse_json_body(http.body);
    const auto [target, name] = api.embedding_target(body, path_model);
    EmbeddingRequest asked = parse_embedding_request(
        body, {.n_vocab = target->tokenizer->n_vocab(), .tokenizer = target->tokenizer},
        target->n_dimensions);
    EmbeddingAnswer::Spec spec;
    spec.format.base64 = asked.base64;
    if (asked.dimensions) spec.format.n_dimensions = static_cast<size_t>(*asked.dimensions);
    spec.model = name;
    return respond_with_embeddings(api, http, *target, std::move(asked), std::move(spec));
  });
}

}  // namespace hearth
