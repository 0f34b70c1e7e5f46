// See the header.
#include "server/api/ollama/models.h"

#include <cstdio>
#include <string>
#include <utility>

#include "server/api/answer/respond.h"
#include "server/api/chat_dialect.h"
#include "server/api/ollama/wire.h"
#include "server/chat/chat_template.h"

namespace hearth {
namespace {

/// The first release of Ollama that has all that is here, Anthropic's messages and OpenAI's responses included.
constexpr const char* kOllamaVersion = "0.14.0";
/// /api/ps says when a model is unloaded: never, here.
constexpr int64_t kHundredYearsSeconds = int64_t{100} * 365 * 24 * 3600;

HttpResponse json_response(const Json& json) {
  HttpResponse response;
  response.body = json_text(json);
  return response;
}

/// "134.52M" or "7.2B".
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

Json entry(const ServedModel& model, const std::string& name) {
  return {{"name", with_tag(name)},
          {"model", with_tag(name)},
          {"modified_at", rfc3339(model.facts.modified)},
          {"size", model.facts.file_bytes},
          {"digest", model.facts.digest},
          {"details", details(model.facts)}};
}

Json capabilities(const ApiContext& api) {
  Json list = Json::array({"completion"});
  if (api.model().chat_template != nullptr) list.push_back("tools");
  if (api.tokenizer().fim().can_fill()) list.push_back("insert");
  if (api.dialect().thinks()) list.push_back("thinking");
  return list;
}

/// The file's keys. The context is what a request may have here, not what the model was trained on.
Json model_info(const ServedModel& model) {
  Json info = model.facts.keys;
  info[model.facts.architecture + ".context_length"] = model.context_tokens;
  return info;
}

std::string parameters(const ServedModel& model) {
  return "num_ctx                        " + std::to_string(model.context_tokens);
}

std::string modelfile(const ServedModel& model, const std::string& name, const std::string& chat_template) {
  return "# What this server serves, in the form of a Modelfile.\nFROM " + name + "\nTEMPLATE \"\"\"" +
         chat_template + "\"\"\"\nPARAMETER num_ctx " + std::to_string(model.context_tokens) + "\n";
}

}  // namespace

HttpResponse ollama_version(const ApiContext&, const HttpRequest&, std::string_view) {
  return json_response({{"version", kOllamaVersion}});
}

HttpResponse ollama_tags(const ApiContext& api, const HttpRequest&, std::string_view) {
  Json models = Json::array();
  for (const std::string& name : api.model().names) models.push_back(entry(api.model(), name));
  return json_response({{"models", std::move(models)}});
}

HttpResponse ollama_ps(const ApiContext& api, const HttpRequest&, std::string_view) {
  const ServedModel& model = api.model();
  Json running = entry(model, model.names.front());
  running.erase("modified_at");
  running["expires_at"] = rfc3339(model.created + kHundredYearsSeconds);
  running["size_vram"] = model.facts.device_bytes;
  running["context_length"] = model.context_tokens;
  return json_response({{"models", Json::array({std::move(running)})}});
}

HttpResponse ollama_show(const ApiContext& api, const HttpRequest& request, std::string_view) {
  return guarded(ErrorStyle::kOllama, [&] {
    const std::string name = ollama_model_name(api, parse_json_body(request.body));
    const ServedModel& model = api.model();
    const std::string chat_template =
        model.chat_template == nullptr ? std::string() : model.chat_template->source();
    return json_response({{"modelfile", modelfile(model, name, chat_template)},
                          {"parameters", parameters(model)},
                          {"template", chat_template},
                          {"details", details(model.facts)},
                          {"model_info", model_info(model)},
                          {"capabilities", capabilities(api)},
                          {"modified_at", rfc3339(model.facts.modified)}});
  });
}

HttpResponse refuse_management(const ApiContext&, const HttpRequest& request, std::string_view) {
  return error_response(
      {501,
       request.path + " is not supported: this server serves the one model that it was started with. "
                      "Start it with --model FILE.gguf to serve another.",
       "", "not_supported"},
      ErrorStyle::kOllama);
}

HttpResponse greeting(const ApiContext&, const HttpRequest&, std::string_view) {
  HttpResponse response;
  response.content_type = "text/plain; charset=utf-8";
  response.body = "hearthd is running\n";
  return response;
}

}  // namespace hearth
