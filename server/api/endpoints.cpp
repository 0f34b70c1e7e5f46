// See the header.
#include "server/api/endpoints.h"

#include <array>

#include "server/api/anthropic/messages.h"
#include "server/api/description/openapi.h"
#include "server/api/local/native_completions.h"
#include "server/api/local/server_facts.h"
#include "server/api/local/tokenize.h"
#include "server/api/ollama/chat.h"
#include "server/api/ollama/embed.h"
#include "server/api/ollama/generate.h"
#include "server/api/ollama/models.h"
#include "server/api/openai/completions.h"
#include "server/api/openai/embeddings.h"
#include "server/api/openai/models.h"
#include "server/api/responses/responses.h"

namespace hearth {
namespace {

HttpResponse list_all_models(const ApiContext& api, const HttpRequest&, std::string_view) {
  return list_models(api);
}

HttpResponse retrieve_one_model(const ApiContext& api, const HttpRequest&, std::string_view id) {
  return retrieve_model(api, id);
}

constexpr std::array kEndpoints = std::to_array<Endpoint>({
    {"/completions", "POST", ErrorStyle::kOpenAi, completions},
    {"/chat/completions", "POST", ErrorStyle::kOpenAi, chat_completions},
    {"/responses", "POST", ErrorStyle::kOpenAi, create_response},
    {"/responses/input_tokens", "POST", ErrorStyle::kOpenAi, count_input_tokens},
    {"/responses/*/cancel", "POST", ErrorStyle::kOpenAi, cancel_response},
    {"/responses/*/input_items", "GET", ErrorStyle::kOpenAi, list_input_items},
    {"/responses/*", "GET", ErrorStyle::kOpenAi, retrieve_response},
    {"/responses/*", "DELETE", ErrorStyle::kOpenAi, delete_response},
    {"/embeddings", "POST", ErrorStyle::kOpenAi, embeddings},
    {"/models", "GET", ErrorStyle::kOpenAi, list_all_models},
    {"/models/*", "GET", ErrorStyle::kOpenAi, retrieve_one_model},
    {"/messages", "POST", ErrorStyle::kAnthropic, create_message},
    {"/messages/count_tokens", "POST", ErrorStyle::kAnthropic, count_message_tokens},
    {"/api/chat", "POST", ErrorStyle::kOllama, ollama_chat},
    {"/api/generate", "POST", ErrorStyle::kOllama, ollama_generate},
    {"/api/embed", "POST", ErrorStyle::kOllama, ollama_embed},
    {"/api/embeddings", "POST", ErrorStyle::kOllama, ollama_embeddings},
    {"/api/version", "GET", ErrorStyle::kOllama, ollama_version},
    {"/api/tags", "GET", ErrorStyle::kOllama, ollama_tags},
    {"/api/ps", "GET", ErrorStyle::kOllama, ollama_ps},
    {"/api/show", "POST", ErrorStyle::kOllama, ollama_show},
    {"/api/pull", "POST", ErrorStyle::kOllama, refuse_management},
    {"/api/push", "POST", ErrorStyle::kOllama, refuse_management},
    {"/api/create", "POST", ErrorStyle::kOllama, refuse_management},
    {"/api/copy", "POST", ErrorStyle::kOllama, refuse_management},
    {"/api/delete", "DELETE", ErrorStyle::kOllama, refuse_management},
    {"/api/blobs/*", "POST", ErrorStyle::kOllama, refuse_management},
    {"/", "GET", ErrorStyle::kOpenAi, greeting},
    {"/completion", "POST", ErrorStyle::kOpenAi, native_completion},
    {"/infill", "POST", ErrorStyle::kOpenAi, infill},
    {"/tokenize", "POST", ErrorStyle::kOpenAi, tokenize},
    {"/detokenize", "POST", ErrorStyle::kOpenAi, detokenize},
    {"/apply-template", "POST", ErrorStyle::kOpenAi, apply_template},
    {"/props", "GET", ErrorStyle::kOpenAi, props},
    {"/slots", "GET", ErrorStyle::kOpenAi, slots},
    {"/tokenizer_info", "GET", ErrorStyle::kOpenAi, tokenizer_info},
    {"/openapi.json", "GET", ErrorStyle::kOpenAi, openapi},
});

}  // namespace

std::span<const Endpoint> endpoints() { return kEndpoints; }

std::optional<std::string_view> match_path(std::string_view pattern, std::string_view path) {
  const size_t star = pattern.find('*');
  if (star == std::string_view::npos) {
    if (path != pattern) return std::nullopt;
    return std::string_view();
  }
  const std::string_view before = pattern.substr(0, star), after = pattern.substr(star + 1);
  const bool matches =
      path.size() > before.size() + after.size() && path.starts_with(before) && path.ends_with(after);
  if (!matches) return std::nullopt;
  return path.substr(before.size(), path.size() - before.size() - after.size());
}

}  // namespace hearth
