// See the header.
#include "server/terminal/run_chat.h"

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <iostream>
#include <iterator>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "config/option_table.h"
#include "server/http/connection/listen_socket.h"
#include "server/models/local_model.h"
#include "server/models/running_server.h"
#include "server/terminal/own_server.h"
#include "server/terminal/terminal_chat.h"

namespace hearth {
namespace {

// Options of the command that the chat's own server does not get.
constexpr std::string_view kNotForServer[] = {"models", "endpoint", "host", "port", "config"};

/// Returns the flags of the command's options that are not defaults.
std::vector<std::string> server_flags(const CommandInvocation& command) {
  std::vector<std::string> flags;
  for (const std::string_view name : command.command->shared) {
    if (std::ranges::find(kNotForServer, name) != std::end(kNotForServer)) continue;
    const OptionSpec& spec = *find_option(Program::kHearthd, name);
    const std::string value = value_text(spec, command.options);
    if (value != value_text(spec, Options{})) flags.insert(flags.end(), {"--" + std::string(name), value});
  }
  return flags;
}

/// Shows the progress of the load on a terminal, as one line that is erased at the end.
class LoadLine {
 public:
  explicit LoadLine(std::string name) : name_(std::move(name)) { show(0); }
  ~LoadLine() {
    if (is_terminal_) std::fprintf(stderr, "\r\033[K");
  }
  LoadLine(const LoadLine&) = delete;
  LoadLine& operator=(const LoadLine&) = delete;
  void show(double done) const {
    if (is_terminal_)
      std::fprintf(stderr, "\r\033[KLoading %s: %d %%", name_.c_str(), static_cast<int>(100 * done));
  }

 private:
  const std::string name_;
  const bool is_terminal_ = ::isatty(STDERR_FILENO) == 1;
};

/// Returns what the chat calls the model: a file's name without its folder and ending, or the user's word.
std::string shown_name(const std::string& model) {
  const bool is_file = model.ends_with(".gguf") && !model.starts_with("hf:");
  return is_file ? std::filesystem::path(model).stem().string() : model;
}

std::string all_of_standard_input() {
  return {std::istreambuf_iterator<char>(std::cin), std::istreambuf_iterator<char>()};
}

}  // namespace

int run_chat(const CommandInvocation& command, const Environment& environment) {
  const bool is_interactive = ::isatty(STDIN_FILENO) == 1;
  const std::vector<std::string>& words = command.arguments;
  std::string url = command.value("url"), key = environment_value(environment, "HEARTH_API_KEY");
  if (!words.empty() && !url.empty())
    throw ConfigError("hearthd run: --url names a running server, which has its model already; leave " +
                      words.front() + " out");
  // 1. Find a server, or start one.
  std::unique_ptr<OwnServer> own;
  if (!words.empty()) {
    Options options;
    options.model = words.front();
    options.models = command.options.models;
    options.endpoint = command.options.endpoint;
    if (const int code = pull_and_use_models(options, environment, {})) return code;
    std::vector<std::string> arguments = server_flags(command);
    arguments.insert(arguments.end(), {"--model", options.model, "--alias", shown_name(words.front())});
    own = std::make_unique<OwnServer>(arguments);
    const LoadLine line(shown_name(words.front()));
    url = own->wait([&line](double done) { line.show(done); });
    key.clear();
  } else if (url.empty()) {
    url = local_url(command.options.host, command.options.port, !command.options.tls_cert.empty());
  }
  RunningServer server = find_server(url, key);
  if (!words.empty()) server.name = shown_name(words.front());
  // 2. Talk.
  TerminalChat chat(server, key, command.value("system"));
  const std::string question = words.size() > 1 ? words[1] : is_interactive ? "" : all_of_standard_input();
  if (question.empty() && is_interactive) {
    chat.converse();
    return 0;
  }
  const bool answered = chat.say(question);
  return TerminalChat::is_interrupted() ? 128 + SIGINT : answered ? 0 : 1;
}

}  // namespace hearth
