// hearthd: reads its options, checks them, and serves a model until a signal stops it. If the first argument
// is the name of a command (config/command_table.h), that runs instead. `hearthd serve` serves, too.
#include <algorithm>
#include <cstdlib>
#include <exception>
#include <iostream>
#include <memory>
#include <new>
#include <string>
#include <string_view>
#include <vector>

#include "config/command_invocation.h"
#include "config/invocation.h"
#include "config/manual/completion.h"
#include "config/manual/described_program.h"
#include "config/manual/manual_page.h"
#include "config/option_table.h"
#include "config/render.h"
#include "config/version.h"
#include "engine/model/gguf/lost_pages.h"
#include "kernels/base/trace.h"
#include "kernels/cpu/isa/isa.h"
#include "profiler/activity/served_trace.h"
#include "profiler/store/reference.h"
#include "server/check_config.h"
#include "server/daemon.h"
#include "server/gate/key_file.h"
#include "server/model_pool.h"
#include "server/models/local_model.h"
#include "server/models/model_commands.h"
#include "server/process/healthcheck.h"
#include "server/process/logging.h"
#include "server/process/service_manager.h"
#include "server/process/standard_streams.h"
#include "server/process/start_error.h"
#include "server/process/stop_signals.h"
#include "server/serving_model.h"
#include "server/terminal/run_chat.h"

namespace {

using namespace hearth;

constexpr int kFailed = 1;         // failed after the start
constexpr int kCouldNotStart = 2;  // wrong options, key file, template, port or model

/// Logs the effective configuration for programs: one object with all values, and one with the source of each
/// value that is not a default.
void log_configuration_for_programs(const Invocation& invocation) {
  LogFields values = {{"version", hearth_version()}}, sources;
  for (const Setting& setting : invocation.settings) {
    values.emplace_back(setting.name, setting.value);
    if (setting.source != "default") sources.emplace_back(setting.name, setting.source);
  }
  log_info("configuration", values);
  if (!sources.empty()) log_info("configuration set by", sources);
}

/// Logs the effective configuration for people: the values that are not defaults in one line, and all of them
/// at the level debug, a line for each group of options.
void log_configuration_for_people(const Invocation& invocation) {
  LogFields changed, sources, values;
  std::string_view group;
  const auto end_group = [&] {
    if (!values.empty()) log_debug("configuration (" + std::string(group) + ")", values);
    values.clear();
  };
  for (const Setting& setting : invocation.settings) {
    if (setting.source == "default") continue;
    changed.emplace_back(setting.name, setting.value);
    sources.emplace_back(setting.name, setting.source);
  }
  log_info(std::string("hearthd ") + hearth_version(), changed);
  for (const Setting& setting : invocation.settings) {
    const OptionSpec* spec = find_option(Program::kHearthd, setting.name);
    if (spec != nullptr && spec->group != group) {
      end_group();
      group = spec->group;
    }
    values.emplace_back(setting.name, setting.value);
  }
  end_group();
  if (!sources.empty()) log_debug("configuration set by", sources);
}

/// Secrets appear as "(set)".
void log_configuration(const Invocation& invocation) {
  if (invocation.options.log_format == Options::LogFormat::kText) {
    log_configuration_for_people(invocation);
  } else {
    log_configuration_for_programs(invocation);
  }
}

/// Example: "hearthd 0.1.0 (commit 54c2a81c0b7e, GNU 12.2.0, avx512-vnni avx2 scalar, no CUDA)".
std::string version_line() {
  const BuildFacts facts = build_facts();
  std::string line = std::string("hearthd ") + hearth_version() + " (";
  line += *facts.commit == 0 ? "commit unknown" : std::string("commit ") + facts.commit;
  line += std::string(", ") + facts.compiler + ",";
  for (const Isa isa : kAllIsas) {
    if (is_built(isa)) line += " " + std::string(isa_name(isa));
  }
  return line + (*facts.cuda == 0 ? ", no CUDA)" : std::string(", CUDA ") + facts.cuda + ")");
}

/// Reads a key from standard input and prints a line for a key file that contains the key's hash. Warns about
/// a short key: an attacker with the hash could find the key by trying all short keys.
int hash_key() {
  constexpr size_t kMostKeyBytes = 4096, kShortKeyBytes = 20;
  std::string key;
  std::getline(std::cin, key);
  if (!key.empty() && key.back() == '\r') key.pop_back();
  if (key.empty() || key.size() > kMostKeyBytes || key.find_first_of(" \t") != std::string::npos) {
    throw StartError("--hash-key reads one line from standard input: a key of 1 to " +
                     std::to_string(kMostKeyBytes) +
                     " characters without blanks, such as 'openssl rand -hex 32' makes");
  }
  if (key.size() < kShortKeyBytes)
    std::cerr << "hearthd: this key is short enough to be guessed from its hash; 'openssl rand -hex 32' "
                 "makes a longer one\n";
  std::cout << hashed_key_line(key) << "\n";
  return 0;
}

/// Checks the condition under which the systemd service starts: a model is configured. If none is, prints a
/// hint without logging an error, and returns 1.
int has_model(const Options& options) {
  if (!options.model.empty() || !options.models_folder.empty()) return 0;
  std::cerr << "hearthd: no model is named yet; "
            << (options.config.empty() ? "set HEARTH_MODEL, or say --model FILE.gguf"
                                       : "put model = \"/path/to/MODEL.gguf\" into " + options.config +
                                             ", then: systemctl restart hearthd")
            << "\n";
  return 1;
}

/// Runs the action that the command line requests instead of serving. Returns the exit code.
int do_action(Invocation invocation, const Environment& environment) {
  switch (invocation.action) {
    case Action::kHelp:
      std::cout << render_short_help();
      return 0;
    case Action::kHelpAll:
      std::cout << render_help();
      return 0;
    case Action::kHelpMarkdown:
      std::cout << render_markdown();
      return 0;
    case Action::kHelpToml:
      std::cout << render_sample_toml();
      return 0;
    case Action::kVersion:
      std::cout << version_line() << "\n";
      return 0;
    case Action::kCheckConfig:
      use_local_models(invocation.options, environment);
      std::cout << check_config(invocation);
      return 0;
    case Action::kHasModel:
      return has_model(invocation.options);
    case Action::kHashKey:
      return hash_key();
    case Action::kHelpMan:
      std::cout << render_manual(describe_hearthd());
      return 0;
    case Action::kHelpManToml:
      std::cout << render_file_manual();
      return 0;
    case Action::kHelpCompletionBash:
      std::cout << render_completion(describe_hearthd(), Shell::kBash);
      return 0;
    case Action::kHelpCompletionZsh:
      std::cout << render_completion(describe_hearthd(), Shell::kZsh);
      return 0;
    case Action::kHelpCompletionFish:
      std::cout << render_completion(describe_hearthd(), Shell::kFish);
      return 0;
    case Action::kHealthcheck:
      break;
    case Action::kServe:
      return 0;
  }
  const HealthcheckResult result =
      check_health(invocation.options.host, invocation.options.port, !invocation.options.tls_cert.empty());
  std::cout << result.answer << "\n";
  return result.healthy ? 0 : 1;
}

/// Opens the file for the trace. Returns null if no trace is requested.
std::unique_ptr<TraceFile> open_trace(const Options& options) try {
  return options.trace.empty() ? nullptr : std::make_unique<TraceFile>(options.trace);
} catch (const std::runtime_error& error) {
  throw StartError(error.what());
}

/// Returns null if the options request no trace of experts. Throws StartError if the model has no experts or
/// the file cannot be written.
std::unique_ptr<ServedTrace> open_expert_trace(const Options& options, const ModelFiles& files) try {
  check_expert_trace(options, files);
  if (options.expert_trace.empty()) return nullptr;
  const auto warn = [](const std::string& sentence) { log_warning("expert trace: " + sentence); };
  return std::make_unique<ServedTrace>(ServedTraceOptions{.file = options.expert_trace, .warn = warn});
} catch (const std::runtime_error& error) {
  throw StartError(error.what());
}

/// Writes the trace. If this fails, logs the error and returns false, so that the program still ends
/// normally.
bool write_trace(TraceFile& timeline) try {
  timeline.write();
  return true;
} catch (const std::runtime_error& error) {
  log_error(error.what());
  return false;
}

/// Runs a command. Returns the exit code.
int do_command(const std::vector<std::string>& arguments, const Environment& environment) {
  const CommandInvocation command = read_command(arguments, environment);
  if (!command.help) {
    return command.command->name == "run" ? run_chat(command, environment)
                                          : run_model_command(command, environment);
  }
  std::cout << render_command_help(*command.command);
  return 0;
}

/// Downloads the models that the options name and the model store does not contain. Returns 0, or the exit
/// code if a download failed or was stopped.
int pull_models(Options& options, const Environment& environment) {
  ServiceManager service_manager(environment_value(environment, "NOTIFY_SOCKET"), "");
  return pull_and_use_models(options, environment, [&service_manager] {
    service_manager.notify("STATUS=Pulling the model\nEXTEND_TIMEOUT_USEC=30000000");
  });
}

/// logging: set to true when the log has been set up.
int serve(Invocation invocation, const Environment& environment, bool& logging) {
  // 1. Set up the log.
  set_up_logging(invocation.options.log_level, invocation.options.log_format, invocation.options.log_file);
  logging = true;
  for (const std::string& warning : invocation.warnings) log_warning(warning);
  // 2. Download missing models. In all other steps, the server connects to no other machine.
  if (const int code = pull_models(invocation.options, environment)) return code;
  const ModelsInUse in_use(invocation.options);
  gguf::survive_lost_pages();
  // 3. Open the model files, and refuse options that cannot work. Block signals first, because the GPU probe
  // starts threads.
  const StopSignals signals;
  const bool has_several = names_several(invocation.options);
  if (has_several) check_options_of_several(invocation.options);
  ModelFiles files = has_several ? ModelFiles() : open_checked(invocation.options);
  const std::unique_ptr<TraceFile> timeline = open_trace(invocation.options);
  const std::unique_ptr<ServedTrace> experts =
      has_several ? nullptr : open_expert_trace(invocation.options, files);
  log_configuration(invocation);  // here, so that the error of a start that cannot work comes alone
  // 4. Bind the port. While the model loads, clients then get 503 with Retry-After instead of a refused
  // connection.
  Daemon daemon(invocation, environment, hearth_version(), std::move(files), signals,
                {.timeline = timeline ? &timeline->trace() : nullptr, .experts = experts.get()});
  // 5. Load, serve, drain.
  Daemon::Outcome outcome = daemon.run();
  // 6. Write the trace, especially after a failure.
  if (timeline && !write_trace(*timeline) && outcome.exit_code == 0) outcome.exit_code = kFailed;
  // 7. Exit without waiting for threads if the user has requested a stop twice, or if the engine has failed,
  // because some threads may then never end. Everything has been saved.
  if (outcome.at_once) std::_Exit(outcome.exit_code);
  return outcome.exit_code;
}

}  // namespace

int main(int argc, char** argv) {
  secure_standard_streams();
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  const bool is_condition = std::ranges::find(arguments, "--has-model") != arguments.end();
  bool logging = false;  // whether errors go to the log
  const auto fail = [&logging](int code, const std::string& sentence) {
    if (logging) hearth::log_error(sentence);
    if (!logging || log_is_in_file()) std::cerr << "hearthd: " << sentence << "\n";
    return code;
  };
  try {
    const Environment environment = process_environment();
    if (is_command(arguments)) return do_command(arguments, environment);
    const bool says_serve = !arguments.empty() && arguments.front() == "serve";
    const Invocation invocation =
        read_invocation({arguments.begin() + (says_serve ? 1 : 0), arguments.end()}, environment);
    if (invocation.action != Action::kServe) return do_action(invocation, environment);
    return serve(invocation, environment, logging);
  } catch (const std::bad_alloc&) {
    return fail(kCouldNotStart,
                "there is not enough memory; lower --context or --slots, or serve a smaller model");
  } catch (const ConfigError& error) {
    // With --has-model, a wrong configuration is not an error: the service manager then starts the service,
    // and that start reports the error.
    if (is_condition) return 0;
    return fail(kCouldNotStart, error.what());
  } catch (const StartError& error) {
    return fail(kCouldNotStart, error.what());
  } catch (const ReferenceError& error) {
    return fail(kCouldNotStart, error.what());
  } catch (const std::exception& error) {
    return fail(kFailed, error.what());
  }
}
