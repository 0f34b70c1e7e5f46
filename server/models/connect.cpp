// See the header.
#include "server/models/connect.h"

#include <algorithm>
#include <cstdio>
#include <optional>
#include <stdexcept>
#include <string_view>

#include "kernels/base/file_error.h"
#include "server/http/connection/listen_socket.h"
#include "server/json/json.h"
#include "server/models/exchange.h"

namespace hearth {
namespace {

constexpr size_t kMostAnswerBytes = 1 << 20;  // of GET /v1/models; usually, it has a few hundred bytes
// Coding agents begin with long instructions and descriptions of tools, then read files.
constexpr int64_t kSmallContext = 32'768;
// The share of the context that an answer may have.
constexpr int64_t kMostAnswerTokens = 32'768, kContextsPerAnswer = 4;

struct Answer {
  int status = 0;
  std::string body;
};

/// Returns nullopt if there is no answer, and sets `why`.
std::optional<Answer> get(const std::string& url, const RequestOptions& options, std::string& why) {
  Answer answer;
  Exchange exchange;
  const CURLcode code = exchange.get(
      url, 0, options,
      [&answer](const TransferHead&, std::string_view bytes) {
        answer.body += bytes;
        return answer.body.size() <= kMostAnswerBytes;
      },
      [] {});
  answer.status = exchange.head().status;
  if (code == CURLE_OK) return answer;
  why = exchange.failure(code);
  return std::nullopt;
}

/// Returns the URL without a path: users may give the one with /v1 too.
std::string base_of(std::string url) {
  while (url.ends_with('/')) url.pop_back();
  if (url.ends_with("/v1")) url.resize(url.size() - 3);
  if (!url.starts_with("http://") && !url.starts_with("https://"))
    throw ConfigError("--url '" + url + "': expected an address such as http://127.0.0.1:8080");
  return url;
}

std::string host_of(const std::string& url) {
  const std::string origin = origin_of(url);  // always has a port
  const size_t begin = origin.find("://") + 3;
  return origin.substr(begin, origin.rfind(':') - begin);
}

/// Fills the name and the context of the first model that generates. Returns false if there is none.
bool read_models(const std::string& body, RunningServer& server) {
  const Json json = Json::parse(body, nullptr, false);
  if (!json.is_object() || !json.contains("data") || !json["data"].is_array()) return false;
  for (const Json& model : json["data"]) {
    if (!model.is_object() || !model.value("generates", false)) continue;
    const auto id = model.find("id"), context = model.find("max_model_len");
    if (id == model.end() || !id->is_string() || context == model.end() || !context->is_number_integer())
      continue;
    server.name = id->get<std::string>();
    server.context = context->get<int64_t>();
    return true;
  }
  return false;
}

RunningServer ask(const std::string& url, const std::string& key) {
  RunningServer server;
  server.url = url;
  const std::string target = url + "/v1/models";
  RequestOptions options;
  options.endpoint = url;
  options.local = is_loopback(host_of(url));
  std::string why;
  std::optional<Answer> answer = get(target, options, why);
  if (answer && answer->status == 401) {
    server.needs_key = true;
    options.token = key;
    if (!key.empty()) answer = get(target, options, why);
  }
  if (!answer) {
    throw std::runtime_error("no server answers at " + url + " (" + why +
                             "); start it with 'hearthd --model FILE|NAME', or name its address with --url");
  }
  if (answer->status == 401) {
    throw std::runtime_error(
        "the server at " + url + " requires an API key" +
        (key.empty() ? "" : ", and refuses the one in HEARTH_API_KEY") +
        "; set HEARTH_API_KEY to a key of the server for this command and for the client");
  }
  if (answer->status == 503)
    throw std::runtime_error("the server at " + url + " is loading its model; try again when it is ready");
  if (answer->status != 200 || !read_models(answer->body, server)) {
    throw std::runtime_error("the server at " + url + " names no model that generates text (HTTP status " +
                             std::to_string(answer->status) + "); expected a hearthd that serves one");
  }
  return server;
}

/// Returns the text for a shell, in single quotes.
std::string shell_quoted(const std::string& text) {
  std::string quoted = "'";
  for (const char c : text) quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return quoted + "'";
}

/// Returns the text as a string of JSON, which is also a basic string of TOML.
std::string quoted(const std::string& text) {
  return Json(text).dump(-1, ' ', false, Json::error_handler_t::replace);
}

int64_t answer_tokens(const RunningServer& server) {
  return std::clamp<int64_t>(server.context / kContextsPerAnswer, 1, kMostAnswerTokens);
}

ClientSetup claude_code(const RunningServer& server) {
  std::string text;
  const auto add = [&text](const std::string& name, const std::string& value) {
    text += "export " + name + "=" + value + "\n";
  };
  add("ANTHROPIC_BASE_URL", shell_quoted(server.url));
  add("ANTHROPIC_AUTH_TOKEN", server.needs_key ? "\"$HEARTH_API_KEY\"" : "none");
  add("ANTHROPIC_MODEL", shell_quoted(server.name));
  add("ANTHROPIC_DEFAULT_HAIKU_MODEL", shell_quoted(server.name));  // for titles and summaries
  add("CLAUDE_CODE_MAX_CONTEXT_TOKENS", std::to_string(server.context));
  text += "unset ANTHROPIC_API_KEY\n";
  return {text, "Paste these lines into your shell, then run: claude"};
}

ClientSetup codex(const RunningServer& server) {
  std::string text = "model = " + quoted(server.name) + "\nmodel_provider = \"hearth\"\n";
  text += "model_context_window = " + std::to_string(server.context) + "\n\n";
  text += "[model_providers.hearth]\nname = \"Hearth\"\n";
  text += "base_url = " + quoted(server.url + "/v1") + "\nwire_api = \"responses\"\n";
  if (server.needs_key) text += "env_key = \"HEARTH_API_KEY\"\n";
  return {text, "Write this to ~/.codex/hearth.config.toml, then run: codex --profile hearth"};
}

ClientSetup opencode(const RunningServer& server) {
  Json model = {{"name", server.name},
                {"limit", {{"context", server.context}, {"output", answer_tokens(server)}}}};
  Json provider = {{"npm", "@ai-sdk/openai-compatible"}, {"name", "Hearth"}};
  provider["options"] = {{"baseURL", server.url + "/v1"},
                         {"apiKey", server.needs_key ? "{env:HEARTH_API_KEY}" : "none"}};
  provider["models"] = Json::object();
  provider["models"][server.name] = std::move(model);
  Json whole = {{"$schema", "https://opencode.ai/config.json"}, {"model", "hearth/" + server.name}};
  whole["provider"] = {{"hearth", std::move(provider)}};
  return {whole.dump(2, ' ', true, Json::error_handler_t::replace) + "\n",
          "Write this to opencode.json in your project, or to ~/.config/opencode/opencode.json, then run: "
          "opencode"};
}

}  // namespace

ClientSetup client_setup(const std::string& client, const RunningServer& server) {
  if (client == "claude-code") return claude_code(server);
  if (client == "codex") return codex(server);
  if (client == "opencode") return opencode(server);
  throw ConfigError("hearthd connect knows claude-code, codex and opencode, not " +
                    file_error::quoted(client, 64) + "; docs/clients.md has settings for other programs");
}

int connect_client(const CommandInvocation& command, const Environment& environment) {
  const std::string& client = command.arguments.front();
  client_setup(client, {});  // refuses an unknown name before the server is asked
  const Options& options = command.options;
  const std::string url =
      base_of(command.value("url", local_url(options.host, options.port, !options.tls_cert.empty())));
  const RunningServer server = ask(url, environment_value(environment, "HEARTH_API_KEY"));
  const ClientSetup setup = client_setup(client, server);
  if (std::fputs(setup.text.c_str(), stdout) < 0 || std::fflush(stdout) != 0)
    throw std::runtime_error("the configuration could not be written to the standard output");
  std::fprintf(stderr, "\n%s\n", setup.steps.c_str());
  if (server.needs_key) std::fprintf(stderr, "The environment variable HEARTH_API_KEY must hold the key.\n");
  if (server.context < kSmallContext) {
    std::fprintf(stderr,
                 "The context of %lld tokens is small for a coding agent; hearthd --context %lld has room "
                 "for its instructions and files.\n",
                 static_cast<long long>(server.context), static_cast<long long>(kSmallContext));
  }
  return 0;
}

}  // namespace hearth
