// See the header.
#include "server/api/ollama/ollama_models.h"

#include <cstdio>
#include <string>
#include <utility>

#include "server/api/answer/respond.h"
#include "server/api/chat_dialect.h"
#include "server/api/ollama/wire.h"
#include "server/chat/chat_template.h"
#include "server/http/error_response.h"

namespace hearth {
namespace {

/// The first Ollama release with all these endpoints, and with Anthropic's messages and OpenAI's responses.
constexpr const char* kOllamaVersion = "0.14.0";
/// /api/ps reports when a model will be unloaded. This time is unknown here, even with --idle-unload, so a
/// time in the far future is reported.
constexpr int64_t kHundredYearsSeconds = int64_t{100} * 365 * 24 * 3600;

/// Examples: "134.52M", "7.2B".
std::string parameter_size(int64_t n) {
  char text[32];
  const double number = static_cast<double>(n);
  if (n >= 1'000'000'000) {
    std::snprintf(text, sizeof(text), "%.1fB", number / 1e9);
  } else {
    std::snprintf(text, sizeof(text), "%.2fM", number / 1e6);
  }
  return text;
}

Json details(const ModelFileFacts& facts) {
  return {{"parent_model", ""},
          {"format", "gguf"},
          {"family", facts.architecture},
          {"families", Json::array({facts.architecture})},
          {"parameter_size", parameter_size(facts.n_parameters)},
          {"quantization_level", facts.quantization}};
}

Json entry(const EmbeddingTarget& target, const std::string& name) {
  return {{"name", with_tag(name)},
          {"model", with_tag(name)},
          {"modified_at", rfc3339(target.facts.modified)},
          {"size", target.facts.file_bytes},
          {"digest", target.facts.digest},
          {"details", details(target.facts)}};
}

/// The entry of a loaded model in /api/ps.
Json running(const EmbeddingTarget& target) {
  Json json = entry(target, target.names.front());
  json.erase("modified_at");
  json["expires_at"] = rfc3339(target.created + kHundredYearsSeconds);
  json["size_vram"] = target.facts.device_bytes;
  json["context_length"] = target.context_tokens;
  return json;
}

/// Capabilities of the served model.
Json capabilities(const ApiContext& api) {
  if (api.model().ranks()) return Json::array();  // Ollama has no endpoint that ranks
  if (!api.model().generates()) return Json::array({"embedding"});
  Json list = Json::array({"completion"});
  if (api.model().chat_template != nullptr) list.push_back("tools");
  if (api.tokenizer().fim().can_fill()) list.push_back("insert");
  if (api.dialect().syntax().thinks()) list.push_back("thinking");
  return list;
}

/// Returns the metadata of the model file. Replaces the file's context length, which is that of the training,
/// by the context length of a request.
Json model_info(const EmbeddingTarget& target) {
  Json info = target.facts.keys;
  info[target.facts.architecture + ".context_length"] = target.context_tokens;
  return info;
}

std::string modelfile(const EmbeddingTarget& target, const std::string& name,
                      const std::string& chat_template) {
  std::string text = "# What this server serves, in the form of a Modelfile.\nFROM " + name + "\n";
  if (!chat_template.empty()) text += "TEMPLATE \"\"\"" + chat_template + "\"\"\"\n";
  return text + "PARAMETER num_ctx " + std::to_string(target.context_tokens) + "\n";
}

/// name: as in the request. can: the model's capabilities.
Json description(const EmbeddingTarget& target, const std::string& name, const std::string& chat_template,
                 Json can) {
  return {{"modelfile", modelfile(target, name, chat_template)},
          {"parameters", "num_ctx                        " + std::to_string(target.context_tokens)},
          {"template", chat_template},
          {"details", details(target.facts)},
          {"model_info", model_info(target)},
          {"capabilities", std::move(can)},
          {"modified_at", rfc3339(target.facts.modified)}};
}

}  // namespace

HttpResponse ollama_version(const HttpRequest&) { return json_response({{"version", kOllamaVersion}}); }

HttpResponse ollama_tags(const ApiContext& api, const HttpRequest&, std::string_view) {
  Json models = Json::array();
  for (const EmbeddingTarget* target : api.targets()) {
    for (const std::string& name : target->names) models.push_back(entry(*target, name));
  }
  return json_response({{"models", std::move(models)}});
}

HttpResponse ollama_ps(const ApiContext& api, const HttpRequest&, std::string_view) {
  Json models = Json::array();
  for (const EmbeddingTarget* target : api.targets()) models.push_back(running(*target));
  return json_response({{"models", std::move(models)}});
}

HttpResponse ollama_tags_of_catalog(const ModelCatalog& catalog) {
  Json models = Json::array();
  for (const std::shared_ptr<const CatalogModel>& one : catalog.models()) {
    EmbeddingTarget target;
    if (one->facts) target.facts = *one->facts;
    for (const std::string& name : one->names) models.push_back(entry(target, name));
  }
  return json_response({{"models", std::move(models)}});
}

HttpResponse ollama_ps_of_catalog(const ModelCatalog& catalog) {
  Json models = Json::array();
  for (const std::shared_ptr<const CatalogModel>& one : catalog.models()) {
    if (const std::shared_ptr<const ReadyModel> model = one->state->model())
      models.push_back(running(*model->api->targets().front()));
  }
  return json_response({{"models", std::move(models)}});
}

HttpResponse ollama_show(const ApiContext& api, const HttpRequest& request, std::string_view) {
  return guarded(ErrorStyle::kOllama, [&] {
    const Json body = parse_json_body(request.body);
    const std::string asked = asked_model(body);
    const EmbeddingTarget& own = *api.targets().front();
    const EmbeddingTarget* target = target_named(api, asked);
    if (target != nullptr && target != &own)
      return json_response(description(*target, asked, {}, Json::array({"embedding"})));
    const ChatTemplate* chat_template = api.model().chat_template;
    return json_response(description(own, ollama_model_name(api, body),
                                     chat_template == nullptr ? std::string() : chat_template->source(),
                                     capabilities(api)));
  });
}

HttpResponse refuse_management(const HttpRequest& request) {
  return error_response(
      {501,
       request.path + " is not supported: this server serves the models that it was started with. "
                      "Start it with --model FILE.gguf to serve another.",
       "", "not_supported"},
      ErrorStyle::kOllama);
}

HttpResponse greeting(const HttpRequest&) {
  HttpResponse response;
  response.content_type = "text/plain; charset=utf-8";
  response.body = "hearthd is running\n";
  return response;
}

}  // namespace hearth
