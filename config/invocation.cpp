// CLI11 parses the flags and the TOML file. Our own code decides the order of precedence and reports all
// errors. The order and the error messages therefore do not depend on CLI11's version (in some versions, the
// file overrides the environment), and every message names the source of the value.
#include "config/invocation.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <optional>
#include <sstream>

#include "config/command_table.h"
#include "config/foreign_words.h"
#include "config/suggest.h"

namespace hearth {
namespace {

// Maps an option's name to its values. Only lists may have more than one value.
using Values = std::map<std::string, std::vector<std::string>>;

// A file of options has a few KiB. The limit prevents hearthd from reading a large file, such as a model,
// when the path is wrong.
constexpr std::uintmax_t kMaxFileBytes = 1 << 20;

bool is_list(const OptionSpec& spec) { return std::holds_alternative<ListField>(spec.field); }

std::string did_you_mean(std::string_view word, const std::vector<std::string>& names) {
  const std::optional<std::string> name = closest_name(word, names);
  return name ? "; did you mean " + *name + "?" : "; see hearthd --help";
}

/// Throws a ConfigError for a flag that hearthd does not have.
[[noreturn]] void refuse_flag(const std::string& argument) {
  if (argument.substr(0, argument.find('=')) == "--api-key") {
    throw ConfigError(
        "--api-key is not a flag because every user of the machine can read flags; set HEARTH_API_KEY or use "
        "--api-key-file");
  }
  std::vector<std::string> names;
  for (const OptionSpec& spec : option_table(Program::kHearthd)) {
    if (spec.sources != Sources::kEnvironmentOnly) names.push_back("--" + std::string(spec.name));
  }
  for (const ActionSpec& spec : action_table()) names.push_back("--" + std::string(spec.name));
  const std::string word = argument.substr(0, argument.find('='));
  const std::string_view advice = advice_for_flag(word);
  throw ConfigError("unknown flag '" + word + "'" +
                    (advice.empty() ? did_you_mean(word, names) : "; " + std::string(advice)));
}

/// Throws a ConfigError if an argument that is not a flag cannot be a model, but a command of this or another
/// program.
void check_model_word(const std::string& word) {
  std::error_code error;
  if (word.find_first_of("./:0123456789") != std::string::npos || std::filesystem::exists(word, error))
    return;
  const std::string refused = "'" + word + "' is not a command of hearthd; ";
  if (const std::string_view advice = advice_for_command(word); !advice.empty())
    throw ConfigError(refused + std::string(advice));
  std::vector<std::string> names;
  for (const CommandSpec& spec : command_table()) names.emplace_back(spec.name);
  if (const std::optional<std::string> meant = closest_name(word, names))
    throw ConfigError(refused + "did you mean " + *meant + "? To serve a model of this name say --model " +
                      word);
}

/// Returns the option whose flag, with one dash or two, this is; null if there is none.
const OptionSpec* option_of_flag(const std::string& flag) {
  if (flag.starts_with("--")) return find_option(Program::kHearthd, flag.substr(2));
  for (const OptionSpec& spec : option_table(Program::kHearthd)) {
    if (spec.letter != 0 && flag == std::string("-") + spec.letter) return &spec;
  }
  return nullptr;
}

/// Adds the arguments that are not flags to the values of --model.
void take_models(const std::vector<std::string>& rest, Values& values) {
  bool flags_ended = false;  // whether "--" has been read
  for (const std::string& argument : rest) {
    if (argument == "--" && !flags_ended) {
      flags_ended = true;
    } else if (!flags_ended && argument.size() > 1 && argument.front() == '-') {
      refuse_flag(argument);
    } else {
      check_model_word(argument);
      values["model"].push_back(argument);
    }
  }
}

Values read_flags(const std::vector<std::string>& arguments, Action& action) {
  CLI::App app;
  app.set_help_flag();
  app.allow_extras();
  std::map<std::string, CLI::Option*> flags, actions;
  for (const OptionSpec& spec : option_table(Program::kHearthd)) {
    if (spec.sources == Sources::kEnvironmentOnly) continue;
    const std::string name(spec.name);
    // Each flag takes exactly one value: "--alias a b" must not take b. If a flag that is not a list is given
    // twice, the last value counts. A script can therefore append flags from its user, which override the
    // script's flags.
    flags[name] = app.add_option(flag_names(spec))->expected(1)->take_all();
  }
  for (const ActionSpec& spec : action_table()) {
    const std::string name(spec.name);
    actions[name] = app.add_flag(name == "help" ? "-h,--help" : "--" + name);
  }
  try {
    app.parse(std::vector<std::string>(arguments.rbegin(), arguments.rend()));  // CLI11 reads from the end
  } catch (const CLI::ArgumentMismatch& error) {
    // Only the last flag can lack its value, because every other flag takes the argument after it as its
    // value.
    const std::string& last = arguments.back();
    const OptionSpec* spec = option_of_flag(last);
    if (spec == nullptr) throw ConfigError(std::string(error.what()) + "; see hearthd --help");
    throw ConfigError(last + " needs a value: " + expectation(*spec) + "; see hearthd --help");
  } catch (const CLI::ParseError& error) {
    throw ConfigError(std::string("the flags cannot be read: ") + error.what());
  }
  for (const ActionSpec& spec : action_table()) {
    if (actions[std::string(spec.name)]->count() > 0 && action == Action::kServe) action = spec.action;
  }
  Values values;
  for (const auto& [name, flag] : flags) {
    if (flag->count() == 0) continue;
    std::vector<std::string> given = flag->results();
    if (!find_option(Program::kHearthd, name)->repeats()) given = {given.back()};
    values[name] = std::move(given);
  }
  std::vector<std::string> rest = app.remaining();
  if (action == Action::kHelp && rest == std::vector<std::string>{"all"}) {
    action = Action::kHelpAll;
    rest.clear();
  }
  take_models(rest, values);
  return values;
}

std::vector<std::string> split_list(const std::string& text) {
  std::vector<std::string> parts;
  std::istringstream in(text);
  for (std::string part; std::getline(in, part, ',');) {
    if (!part.empty()) parts.push_back(part);
  }
  return parts;
}

Values read_environment(const Environment& environment, std::vector<std::string>& warnings) {
  Values values;
  std::vector<std::string> names;
  for (const OptionSpec& spec : option_table(Program::kHearthd)) {
    names.push_back(environment_name(spec.name));
    const std::string text = environment_value(environment, names.back());
    if (text.empty()) continue;
    if (spec.name == "port" && text.rfind("tcp://", 0) == 0) {
      // Kubernetes and Docker set this variable to an address if a service is called "hearth".
      warnings.push_back("HEARTH_PORT=" + text +
                         " looks like an address set by the container runtime; ignored");
      continue;
    }
    values[std::string(spec.name)] = is_list(spec) ? split_list(text) : std::vector<std::string>{text};
  }
  for (const auto& [name, value] : environment) {
    if (name.rfind("HEARTH_", 0) != 0 || std::find(names.begin(), names.end(), name) != names.end()) continue;
    // This HEARTH_ variable is not an option, and may belong to another program. Warn only if its name looks
    // like a mistyped option.
    const std::optional<std::string> meant = closest_name(name.substr(7), [&names] {
      std::vector<std::string> tails;
      for (const std::string& known : names) tails.push_back(known.substr(7));
      return tails;
    }());
    if (meant)
      warnings.push_back(name + " is not an option and is ignored; did you mean HEARTH_" + *meant + "?");
  }
  return values;
}

/// Skips the UTF-8 byte order mark that some editors write at the start of a file, so that it does not become
/// part of the first key.
void skip_byte_order_mark(std::istream& in) {
  constexpr std::string_view kMark = "\xef\xbb\xbf";
  std::string begin(kMark.size(), '\0');
  in.read(begin.data(), static_cast<std::streamsize>(begin.size()));
  if (in.gcount() == static_cast<std::streamsize>(kMark.size()) && begin == kMark) return;
  in.clear();  // clear the error if the file is shorter than the mark
  in.seekg(0);
}

std::vector<CLI::ConfigItem> parse_file(const std::string& path) {
  std::error_code error;
  const std::filesystem::file_status status = std::filesystem::status(path, error);
  if (!std::filesystem::exists(status)) throw ConfigError(path + ": there is no such configuration file");
  if (!std::filesystem::is_regular_file(status))
    throw ConfigError(path + ": the configuration must be a plain file");
  if (std::filesystem::file_size(path, error) > kMaxFileBytes || error) {
    throw ConfigError(path + ": too large for a configuration file (1 MiB at most)");
  }
  std::ifstream in(path);
  if (!in) throw ConfigError(path + ": the configuration file cannot be read; check its permissions");
  skip_byte_order_mark(in);
  try {
    return CLI::ConfigTOML().from_config(in);
  } catch (const std::exception& failure) {
    throw ConfigError(path + ": not a TOML file: " + failure.what());
  }
}

Values read_file(const std::string& path) {
  std::vector<std::string> names;
  for (const OptionSpec& spec : option_table(Program::kHearthd)) {
    if (spec.sources == Sources::kAll) names.emplace_back(spec.name);
  }
  Values values;
  for (const CLI::ConfigItem& item : parse_file(path)) {
    if (!item.parents.empty()) {
      throw ConfigError(path + ": [" + item.parents.front() +
                        "]: sections are not supported; remove this line and write the keys without it");
    }
    const OptionSpec* spec = find_option(Program::kHearthd, item.name);
    if (spec == nullptr || spec->sources != Sources::kAll) {
      if (item.name == "api-key")
        throw ConfigError(path + ": api-key: secrets do not go here; use api-key-file");
      throw ConfigError(path + ": unknown key '" + item.name + "'" + did_you_mean(item.name, names));
    }
    std::vector<std::string> inputs = item.inputs;
    for (std::string& input : inputs) {
      // Older versions of CLI11 cut a quoted string at a '#'. The remaining text then has only the opening
      // quote.
      if (!input.empty() && (input.front() == '"' || input.front() == '\'')) {
        throw ConfigError(path + ": " + item.name + ": a quote is not closed (or the text holds a '#')");
      }
    }
    if (!values.emplace(item.name, std::move(inputs)).second) {
      throw ConfigError(path + ": " + item.name + " is given twice");
    }
  }
  return values;
}

std::string joined(const std::vector<std::string>& values) {
  std::string text;
  for (const std::string& value : values) text += (text.empty() ? "" : ", ") + value;
  return text;
}

/// Returns the value as the user wrote it, with its source, for error messages.
std::string quoted(const OptionSpec& spec, const std::string& source,
                   const std::vector<std::string>& values) {
  const std::string name(spec.name);
  if (source == "flag") return "--" + name + " '" + joined(values) + "'";
  if (source == "environment") return environment_name(name) + "='" + joined(values) + "'";
  return source.substr(5) + ": " + name + " = '" + joined(values) + "'";
}

}  // namespace

Invocation read_invocation(const std::vector<std::string>& arguments, const Environment& environment) {
  Invocation invocation;
  invocation.arguments = arguments;
  const Values flags = read_flags(arguments, invocation.action);
  const bool needs_options =
      invocation.action == Action::kServe || invocation.action == Action::kHealthcheck ||
      invocation.action == Action::kCheckConfig || invocation.action == Action::kHasModel;
  if (!needs_options) return invocation;

  const Values variables = read_environment(environment, invocation.warnings);
  std::vector<std::pair<std::string, Values>> sources = {{"flag", flags}, {"environment", variables}};
  const Values& config_source = flags.count("config") != 0 ? flags : variables;
  if (const Values::const_iterator config = config_source.find("config"); config != config_source.end()) {
    const std::string path = config->second.front();
    sources.emplace_back("file " + path, read_file(path));
  }

  for (const OptionSpec& spec : option_table(Program::kHearthd)) {
    Setting setting{std::string(spec.name), "", "default"};
    for (const auto& [source, values] : sources) {
      const Values::const_iterator found = values.find(setting.name);
      if (found == values.end()) continue;
      if (!assign(spec, found->second, invocation.options)) {
        throw ConfigError(quoted(spec, source, found->second) + ": expected " + expectation(spec));
      }
      setting.source = source;
      break;
    }
    setting.value = value_text(spec, invocation.options);
    invocation.settings.push_back(std::move(setting));
  }
  return invocation;
}

}  // namespace hearth
