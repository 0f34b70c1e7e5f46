// Fuzzes the bodies of generating requests, for every family of clients. Any body must be parsed, or refused
// with a 400 that can be sent, and nothing else. Accepted values must be within the engine's ranges.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "server/api/anthropic/messages_request.h"
#include "server/api/llamacpp/native_request.h"
#include "server/api/ollama/chat.h"
#include "server/api/ollama/generate.h"
#include "server/api/ollama/ollama_embed.h"
#include "server/api/openai/chat_request.h"
#include "server/api/openai/completion_request.h"
#include "server/api/openai/embedding_request.h"
#include "server/api/rerank/rerank_request.h"
#include "server/api/responses/conversation.h"
#include "server/api/responses/response_request.h"
#include "server/json/api_error.h"

namespace hearth {
namespace {

constexpr RequestLimits kLimits{.n_vocab = 1000};
constexpr int kDimensions = 100;

void require(bool holds) {
  if (!holds) std::abort();
}

void check(const GenerationFields& fields) {
  const SamplingParams& sampling = fields.sampling;
  require(sampling.temperature >= 0 && sampling.temperature <= 2 && sampling.top_k >= 0);
  require(sampling.top_p > 0 && sampling.top_p <= 1 && sampling.min_p >= 0 && sampling.min_p < 1);
  require(sampling.repetition_penalty > 0 && sampling.repetition_penalty <= 100);
  for (const auto& [token, bias] : sampling.logit_bias) {
    require(token >= 0 && token < kLimits.n_vocab && bias >= -100 && bias <= 100);
  }
  for (const std::string& stop : fields.stop) require(!stop.empty());
  require(fields.stop.size() <= 2 * 64 && fields.n >= 1 && fields.n <= 128);
}

void check(const CompletionRequest& request) {
  check(request.generation);
  require(!request.prompts.empty() && request.best_of >= request.generation.n);
  require(request.prompts.size() * static_cast<size_t>(request.best_of) <= 2048);
  for (const Prompt& prompt : request.prompts) {
    const auto* ids = std::get_if<std::vector<int32_t>>(&prompt);
    require(ids == nullptr || !ids->empty());
  }
}

void check(const ChatRequest& request) {
  check(request.generation);
  require(request.messages.is_array() && !request.messages.empty() && request.template_arguments.is_object());
}

void check(const MessagesRequest& request) {
  check(request.chat);
  require(request.chat.generation.n == 1 && request.chat.max_tokens.value_or(1) >= 1);
}

void check(const OllamaGenerateRequest& request) { check(request.chat); }

void check(const NativeRequest& request) {
  check(request.generation);
  require(request.generation.n == 1 && request.n_predict.value_or(0) >= 0 && request.n_probs <= 20);
}

/// Items that refer to others are resolved before; all others become messages or are refused.
void check(const ResponseRequest& request) {
  check(request.chat.generation);
  require(request.input.is_array() && !request.input.empty() && request.echo.is_object());
  require(!request.chat.max_tokens || *request.chat.max_tokens >= 1);
  Conversation conversation(request.instructions);
  bool spoken = !request.instructions.empty();
  for (const Json& item : request.input) {
    if (item["type"] == "item_reference") continue;
    conversation.add(item, "input");
    spoken = true;
  }
  if (spoken) require(!conversation.take().empty());
}

void check(const EmbeddingRequest& request) {
  require(!request.inputs.empty() && request.inputs.size() <= 2048);
  for (const Prompt& input : request.inputs) {
    require(std::visit([](const auto& tokens) { return !tokens.empty(); }, input));
  }
  require(!request.dimensions || (*request.dimensions >= 1 && *request.dimensions <= kDimensions));
  require(!request.n_kept_tokens || *request.n_kept_tokens == -1 || *request.n_kept_tokens > 0);
}

void check(const RerankRequest& request) {
  require(!request.query.empty() && !request.documents.empty() && request.documents.size() <= 2048);
  for (const std::string& document : request.documents) require(!document.empty());
  require(request.top_n.value_or(1) >= 1 && request.max_tokens_per_doc.value_or(1) >= 1);
  require(!request.n_kept_tokens || *request.n_kept_tokens == -1 || *request.n_kept_tokens > 0);
}

RerankRequest parse_rerank(const Json& body, const RequestLimits&) { return parse_rerank_request(body); }

EmbeddingRequest parse_embedding(const Json& body, const RequestLimits& limits) {
  return parse_embedding_request(body, limits, kDimensions);
}

EmbeddingRequest parse_embed(const Json& body, const RequestLimits& limits) {
  EmbeddingRequest request = parse_ollama_embed(body, "input", limits, kDimensions);
  if (request.inputs.empty()) request.inputs.emplace_back("none");  // asks to load the model
  return request;
}

template <typename Parse>
void parse_or_refuse(std::string_view body, Parse parse) {
  try {
    check(parse(parse_json_body(body), kLimits));
  } catch (const RequestError& refused) {
    require(refused.error().status == 400 && !refused.error().message.empty());
    for (const ErrorStyle style : {ErrorStyle::kOpenAi, ErrorStyle::kAnthropic, ErrorStyle::kOllama})
      require(Json::accept(error_json(refused.error(), style)));
  }
}

}  // namespace
}  // namespace hearth

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view body(reinterpret_cast<const char*>(data), size);
  hearth::parse_or_refuse(body, hearth::parse_completion_request);
  hearth::parse_or_refuse(body, hearth::parse_chat_request);
  hearth::parse_or_refuse(body, hearth::parse_messages_request);
  hearth::parse_or_refuse(body, hearth::parse_ollama_chat);
  hearth::parse_or_refuse(body, hearth::parse_ollama_generate);
  hearth::parse_or_refuse(body, hearth::parse_native_request);
  hearth::parse_or_refuse(body, hearth::parse_response_request);
  hearth::parse_or_refuse(body, hearth::parse_embedding);
  hearth::parse_or_refuse(body, hearth::parse_embed);
  hearth::parse_or_refuse(body, hearth::parse_rerank);
  return 0;
}
