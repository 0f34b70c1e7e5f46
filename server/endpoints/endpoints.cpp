// See the header.
#include "server/endpoints/endpoints.h"

#include <array>

#include "server/api/anthropic/anthropic_models.h"
#include "server/api/anthropic/messages_endpoint.h"
#include "server/api/description/openapi.h"
#include "server/api/llamacpp/native_completions.h"
#include "server/api/llamacpp/server_facts.h"
#include "server/api/llamacpp/tokenize.h"
#include "server/api/ollama/chat.h"
#include "server/api/ollama/generate.h"
#include "server/api/ollama/ollama_embed.h"
#include "server/api/ollama/ollama_models.h"
#include "server/api/openai/completions.h"
#include "server/api/openai/embeddings.h"
#include "server/api/openai/models.h"
#include "server/api/responses/responses.h"
#include "server/endpoints/api_path.h"
#include "server/page/live_events.h"

namespace hearth {
namespace {

bool is_of_anthropic(const HttpRequest& request) { return error_style(request) == ErrorStyle::kAnthropic; }

HttpResponse list_all_models(const ApiContext& api, const HttpRequest& request, std::string_view) {
  return is_of_anthropic(request) ? list_anthropic_models(api, request) : list_models(api);
}

HttpResponse retrieve_one_model(const ApiContext& api, const HttpRequest& request, std::string_view id) {
  return is_of_anthropic(request) ? retrieve_anthropic_model(api, id) : retrieve_model(api, id);
}

constexpr std::array kEndpoints = std::to_array<Endpoint>({
    {"/completions", "POST", completions},
    {"/chat/completions", "POST", chat_completions},
    {"/responses", "POST", create_response},
    {"/responses/input_tokens", "POST", count_input_tokens},
    {"/responses/*/cancel", "POST", cancel_response},
    {"/responses/*/input_items", "GET", list_input_items},
    {"/responses/*", "GET", retrieve_response},
    {"/responses/*", "DELETE", delete_response},
    {"/embeddings", "POST", embeddings},
    {"/models", "GET", list_all_models},
    {"/models/*", "GET", retrieve_one_model},
    {"/messages", "POST", create_message},
    {"/messages/count_tokens", "POST", count_message_tokens},
    {"/api/chat", "POST", ollama_chat},
    {"/api/generate", "POST", ollama_generate},
    {"/api/embed", "POST", ollama_embed},
    {"/api/embeddings", "POST", ollama_embeddings},
    {"/api/version", "GET", ollama_version},
    {"/api/tags", "GET", ollama_tags},
    {"/api/ps", "GET", ollama_ps},
    {"/api/show", "POST", ollama_show},
    {"/api/pull", "POST", refuse_management},
    {"/api/push", "POST", refuse_management},
    {"/api/create", "POST", refuse_management},
    {"/api/copy", "POST", refuse_management},
    {"/api/delete", "DELETE", refuse_management},
    {"/api/blobs/*", "POST", refuse_management},
    {"/", "GET", greeting},
    {"/completion", "POST", native_completion},
    {"/infill", "POST", infill},
    {"/tokenize", "POST", tokenize},
    {"/detokenize", "POST", detokenize},
    {"/apply-template", "POST", apply_template},
    {"/props", "GET", props},
    {"/slots", "GET", slots},
    {"/tokenizer_info", "GET", tokenizer_info},
    {"/openapi.json", "GET", openapi},
    {"/page/events", "GET", page_events},
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
