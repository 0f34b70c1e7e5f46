// See the header.
#include "server/models/connect.h"

#include <algorithm>
#include <cstdio>
#include <stdexcept>

#include "kernels/base/file_error.h"
#include "server/http/connection/listen_socket.h"
#include "server/json/json.h"

namespace hearth {
namespace {

// Coding agents begin with long instructions and descriptions of tools, then read files.
constexpr int64_t kSmallContext = 32'768;
// The share of the context that an answer may have.
constexpr int64_t kMostAnswerTokens = 32'768, kContextsPerAnswer = 4;
// Claude Code keeps room for the longest answer free, 20,000 tokens if it is not told another number, and it
// begins with 12,000 tokens. It stops if its next prompt would reach into this room.
constexpr int64_t kContextsPerAnswerOfClaude = 8;

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

int64_t answer_tokens(const RunningServer& server, int64_t contexts_per_answer) {
  return std::clamp<int64_t>(server.context / contexts_per_answer, 1, kMostAnswerTokens);
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
  add("CLAUDE_CODE_MAX_OUTPUT_TOKENS", std::to_string(answer_tokens(server, kContextsPerAnswerOfClaude)));
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
  Json model = {
      {"name", server.name},
      {"limit", {{"context", server.context}, {"output", answer_tokens(server, kContextsPerAnswer)}}}};
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
      command.value("url", local_url(options.host, options.port, !options.tls_cert.empty()));
  const RunningServer server = find_server(url, environment_value(environment, "HEARTH_API_KEY"));
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
