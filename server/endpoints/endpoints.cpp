// See the header.
#include "server/endpoints/endpoints.h"

#include <algorithm>
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
#include "server/api/rerank/rerank.h"
#include "server/api/responses/responses.h"
#include "server/endpoints/api_path.h"
#include "server/page/live_events.h"
#include "server/page/page.h"

namespace hearth {
namespace {

bool is_of_anthropic(const HttpRequest& request) { return error_style(request) == ErrorStyle::kAnthropic; }

HttpResponse list_all_models(const ApiContext& api, const HttpRequest& request, std::string_view) {
  return is_of_anthropic(request) ? list_anthropic_models(api, request) : list_models(api);
}

HttpResponse retrieve_one_model(const ApiContext& api, const HttpRequest& request, std::string_view id) {
  return is_of_anthropic(request) ? retrieve_anthropic_model(api, id) : retrieve_model(api, id);
}

HttpResponse list_whole_catalog(const ModelCatalog& catalog, const HttpRequest& request, std::string_view) {
  return is_of_anthropic(request) ? list_anthropic_catalog(catalog, request) : list_catalog(catalog);
}

HttpResponse retrieve_one_of_catalog(const ModelCatalog& catalog, const HttpRequest& request,
                                     std::string_view id) {
  return is_of_anthropic(request) ? retrieve_from_anthropic_catalog(catalog, id)
                                  : retrieve_from_catalog(catalog, id);
}

HttpResponse tags_of_catalog(const ModelCatalog& catalog, const HttpRequest&, std::string_view) {
  return ollama_tags_of_catalog(catalog);
}

HttpResponse ps_of_catalog(const ModelCatalog& catalog, const HttpRequest&, std::string_view) {
  return ollama_ps_of_catalog(catalog);
}

HttpResponse health(const ServerParts& server, const HttpRequest&) {
  return server.catalog != nullptr ? server.catalog->health() : server.state.health();
}
HttpResponse live(const ServerParts& server, const HttpRequest&) {
  return server.catalog != nullptr ? server.catalog->live() : server.state.live();
}
HttpResponse ready(const ServerParts& server, const HttpRequest&) {
  return server.catalog != nullptr ? server.catalog->ready() : server.state.ready();
}
HttpResponse metrics(const ServerParts& server, const HttpRequest&) { return server.metrics(); }
HttpResponse admin_model(const ServerParts& server, const HttpRequest& request) {
  return server.admin(request);
}

constexpr std::array kEndpoints = [] {
  using enum Access;
  using enum ModelUse;
  return std::to_array<Endpoint>({
      // Columns: path, method, access, use of the model, handler, whether the endpoint exists only with
      // --page, whether it is a probe, handler if the server has several models or its model is unloaded.
      {"/completions", "POST", kUse, kWakes, completions},
      {"/chat/completions", "POST", kUse, kWakes, chat_completions},
      {"/responses", "POST", kUse, kWakes, create_response},
      {"/responses/compact", "POST", kUse, kWakes, compact_response},
      {"/responses/input_tokens", "POST", kUse, kWakes, count_input_tokens},
      {"/responses/*/cancel", "POST", kUse, kWakes, cancel_response},
      {"/responses/*/input_items", "GET", kUse, kWakes, list_input_items},
      {"/responses/*", "GET", kUse, kWakes, retrieve_response},
      {"/responses/*", "DELETE", kUse, kWakes, delete_response},
      {"/embeddings", "POST", kUse, kWakes, embeddings},
      {"/rerank", "POST", kUse, kWakes, rerank},
      {"/v2/rerank", "POST", kUse, kWakes, rerank},
      {"/models", "GET", kUse, kWatches, list_all_models, false, false, list_whole_catalog},
      {"/models/*", "GET", kUse, kWatches, retrieve_one_model, false, false, retrieve_one_of_catalog},
      {"/messages", "POST", kUse, kWakes, create_message},
      {"/messages/count_tokens", "POST", kUse, kWakes, count_message_tokens},
      {"/api/chat", "POST", kUse, kWakes, ollama_chat},
      {"/api/generate", "POST", kUse, kWakes, ollama_generate},
      {"/api/embed", "POST", kUse, kWakes, ollama_embed},
      {"/api/embeddings", "POST", kUse, kWakes, ollama_embeddings},
      {"/api/version", "GET", kUse, kNone, ollama_version},
      {"/api/tags", "GET", kUse, kWatches, ollama_tags, false, false, tags_of_catalog},
      {"/api/ps", "GET", kUse, kWatches, ollama_ps, false, false, ps_of_catalog},
      {"/api/show", "POST", kUse, kWakes, ollama_show},
      {"/api/pull", "POST", kUse, kNone, refuse_management},
      {"/api/push", "POST", kUse, kNone, refuse_management},
      {"/api/create", "POST", kUse, kNone, refuse_management},
      {"/api/copy", "POST", kUse, kNone, refuse_management},
      {"/api/delete", "DELETE", kUse, kNone, refuse_management},
      {"/api/blobs/*", "POST", kUse, kNone, refuse_management},
      {"/", "GET", kEveryone, kNone, page, true},
      {"/", "GET", kUse, kNone, greeting},
      {"/completion", "POST", kUse, kWakes, native_completion},
      {"/infill", "POST", kUse, kWakes, infill},
      {"/tokenize", "POST", kUse, kWakes, tokenize},
      {"/detokenize", "POST", kUse, kWakes, detokenize},
      {"/apply-template", "POST", kUse, kWakes, apply_template},
      {"/props", "GET", kUse, kWakes, props},
      {"/slots", "GET", kUse, kWakes, slots},
      {"/tokenizer_info", "GET", kUse, kWakes, tokenizer_info},
      {"/openapi.json", "GET", kUse, kNone, openapi},
      {"/page/events", "GET", kUse, kWatches, page_events, true},
      {"/page/*", "GET", kEveryone, kNone, page_part, true},
      {"/health", "GET", kEveryone, kNone, health, false, true},
      {"/livez", "GET", kEveryone, kNone, live, false, true},
      {"/readyz", "GET", kEveryone, kNone, ready, false, true},
      {"/metrics", "GET", kMetrics, kNone, metrics, false, true},
      {"/admin/model", "GET", kAdmin, kNone, admin_model},
      {"/admin/model", "POST", kAdmin, kNone, admin_model},
  });
}();

constexpr bool takes_model(const Endpoint& endpoint) {
  return std::holds_alternative<Endpoint::OfModel>(endpoint.handle) ||
         std::holds_alternative<Endpoint::Generates>(endpoint.handle);
}
static_assert(std::ranges::all_of(kEndpoints, [](const Endpoint& endpoint) {
  return takes_model(endpoint) == (endpoint.model != ModelUse::kNone);
}));
static_assert(std::ranges::all_of(kEndpoints, [](const Endpoint& endpoint) {
  return !endpoint.is_probe ||
         (endpoint.method == "GET" && std::holds_alternative<Endpoint::OfServer>(endpoint.handle));
}));

/// Returns the characters that the pattern's '*' matches, or "" if the pattern has no '*'. Returns nullopt if
/// the path does not match.
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

/// Returns the first row whose pattern matches the path, with any method, or null. All methods of the path
/// are in rows with this pattern. A later row with another pattern does not apply to the path, even if its
/// '*' matches.
const Endpoint* first_row(std::string_view path, bool has_page) {
  const auto* found = std::ranges::find_if(kEndpoints, [path, has_page](const Endpoint& endpoint) {
    return (has_page || !endpoint.of_page) && match_path(endpoint.path, path);
  });
  return found == kEndpoints.end() ? nullptr : found;
}

/// Whether the path is /admin or below it, even if it is unknown.
bool is_below_admin(std::string_view path) { return path == "/admin" || path.starts_with("/admin/"); }

void add_method(std::string& methods, std::string_view method) {
  if (methods.find(method) != std::string::npos) return;
  if (!methods.empty()) methods += ", ";
  methods += method;
}

}  // namespace

std::span<const Endpoint> endpoints() { return kEndpoints; }

Destination find_destination(std::string_view path, std::string_view method, bool has_page) {
  const auto [endpoint_path, model] = read_api_path(path);
  if (method == "HEAD") method = "GET";
  const Endpoint* const first = first_row(endpoint_path, has_page);
  if (first == nullptr) return {.access = is_below_admin(endpoint_path) ? Access::kAdmin : Access::kUse};
  Destination none{.access = Access::kEveryone};
  for (const Endpoint& row : kEndpoints) {
    if (row.path != first->path || (row.of_page && !has_page)) continue;
    if (method == row.method) {
      const std::string_view argument = *match_path(row.path, endpoint_path);
      return {.endpoint = &row, .argument = argument.empty() ? model : argument, .access = row.access};
    }
    add_method(none.methods, row.method);
    none.access = std::max(none.access, row.access);
  }
  return none;
}

std::string_view table_path(std::string_view path) {
  const Endpoint* const found = first_row(path, true);
  return found == nullptr ? std::string_view() : found->path;
}

}  // namespace hearth
