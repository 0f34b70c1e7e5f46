// See the header.
#include "server/metrics/metrics_page.h"

#include <memory>
#include <utility>
#include <variant>

#include "server/endpoints/endpoints.h"
#include "server/http/error_response.h"
#include "server/json/api_error.h"
#include "server/metrics/metrics_text.h"

namespace hearth {

namespace {

void add_model(MetricsInput& input, const ReadyModel& ready) {
  input.engines.push_back({ready.name, ready.engine->status(), ready.engine->figures()});
  if (ready.embedder != nullptr) {
    input.engines.push_back({ready.embedder_name, ready.embedder->status(), ready.embedder->figures()});
  }
}

}  // namespace

MetricsPage::MetricsPage(const ServerState& state, std::string version, const ModelCatalog* catalog)
    : state_(state), version_(std::move(version)), catalog_(catalog) {}

HttpResponse MetricsPage::answer() const {
  MetricsInput input;
  input.version = version_;
  input.phase = state_.phase();
  input.load_progress = state_.progress();
  input.healthy = catalog_ != nullptr ? catalog_->serves() : state_.serves();
  input.requests = requests_.totals();
  input.process = read_process_figures();
  if (const std::shared_ptr<const ReadyModel> ready =
          catalog_ != nullptr ? catalog_->first_loaded() : state_.model()) {
    const ServedModel& model = ready->api->model();
    input.backend = model.device;
    if (model.sparsity.activity.n_tokens > 0) input.active_share = model.sparsity.activity.active;
    input.bytes_per_token = model.sparsity.bytes_per_token;
    input.dense_bytes_per_token = model.sparsity.dense_bytes_per_token;
    if (catalog_ == nullptr) add_model(input, *ready);
  }
  if (catalog_ != nullptr) {
    for (const std::shared_ptr<const CatalogModel>& one : catalog_->models()) {
      input.models.emplace_back(one->names.front(), one->state->model() != nullptr);
      if (const std::shared_ptr<const ReadyModel> model = one->state->model()) add_model(input, *model);
    }
  }
  HttpResponse response;
  response.content_type = kMetricsContentType;
  response.headers.emplace_back("Cache-Control", "no-store");
  response.body = metrics_text(input);
  return response;
}

HttpResponse MetricsPage::serve_alone(const HttpRequest& request) const {
  if (request.method != "GET" && request.method != "HEAD")
    return wrong_method(request, "GET", ErrorStyle::kOpenAi);
  const Endpoint* const endpoint = find_destination(request.path, request.method, false).endpoint;
  if (endpoint == nullptr || !endpoint->is_probe) {
    return error_response({404,
                           "there is no " + request.path +
                               " on this port, which has /metrics and health checks only; "
                               "the API is on --port",
                           "", "unknown_url"});
  }
  const ServerParts parts{
      .state = state_, .metrics = [this] { return answer(); }, .admin = {}, .catalog = catalog_};
  return std::get<Endpoint::OfServer>(endpoint->handle)(parts, request);
}

}  // namespace hearth
