// Reads a command's own flags and arguments. Options that the command shares with the server are passed to
// read_invocation(), which also reads them from the environment and the configuration file.
#include "config/command_invocation.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>

#include "config/suggest.h"

namespace hearth {
namespace {

std::string did_you_mean(const std::string& word, const std::vector<std::string>& names,
                         const std::string& otherwise) {
  const std::optional<std::string> name = closest_name(word, names);
  return name ? "; did you mean " + *name + "?" : "; see " + otherwise;
}

void check_arguments(const CommandSpec& spec, const std::vector<std::string>& given) {
  const std::string usage = "; see hearthd " + std::string(spec.name) + " --help";
  if (given.size() < spec.min_arguments)
    throw ConfigError("hearthd " + std::string(spec.name) + " needs " + std::string(spec.arguments) + usage);
  if (given.size() > spec.max_arguments) {
    throw ConfigError("hearthd " + std::string(spec.name) + ": unexpected argument '" +
                      given[spec.max_arguments] + "'" + usage);
  }
  for (const std::string& one : given) {
    if (one.empty() || one.find('\0') != std::string::npos)
      throw ConfigError("hearthd " + std::string(spec.name) + ": an argument is empty" + usage);
  }
}

/// Throws if a flag of the command stands where an option's value should be, because the user left out the
/// value.
void require_value(const std::string& program, const std::string& name, const std::string& given,
                   const std::vector<std::string>& flags) {
  if (std::ranges::find(flags, given.substr(0, given.find('='))) != flags.end())
    throw ConfigError(program + ": --" + name + " needs a value, and " + given + " follows; see " + program +
                      " --help");
}

}  // namespace

std::string CommandInvocation::value(const std::string& name, const std::string& otherwise) const {
  const auto found = own.find(name);
  return found == own.end() ? otherwise : found->second;
}

int CommandInvocation::number(const std::string& name, int otherwise, int least, int most) const {
  const auto found = own.find(name);
  if (found == own.end()) return otherwise;
  int number = 0;
  const char* const end = found->second.data() + found->second.size();
  const std::from_chars_result result = std::from_chars(found->second.data(), end, number);
  if (result.ec != std::errc() || result.ptr != end || number < least || number > most) {
    throw ConfigError("--" + name + " '" + found->second + "': expected a whole number from " +
                      std::to_string(least) + " to " + std::to_string(most));
  }
  return number;
}

bool is_command(const std::vector<std::string>& arguments) {
  return !arguments.empty() && find_command(arguments.front()) != nullptr;
}

CommandInvocation read_command(const std::vector<std::string>& arguments, const Environment& environment) {
  CommandInvocation invocation;
  invocation.command = find_command(arguments.front());
  const CommandSpec& spec = *invocation.command;
  const std::string program = "hearthd " + std::string(spec.name);

  CLI::App app;
  app.set_help_flag();
  app.allow_extras();
  CLI::Option* const help = app.add_flag("-h,--help");
  std::vector<std::string> names = {"--help"};
  std::map<std::string, CLI::Option*> shared, own;
  for (const std::string_view name : spec.shared) {
    names.push_back("--" + std::string(name));
    shared[std::string(name)] =
        app.add_option(flag_names(*find_option(Program::kHearthd, name)))->expected(1)->take_last();
  }
  for (const CommandOption& option : spec.own) {
    names.push_back("--" + std::string(option.name));
    own[std::string(option.name)] = option.value.empty()
                                        ? app.add_flag(names.back())
                                        : app.add_option(names.back())->expected(1)->take_last();
  }
  try {
    app.parse(
        std::vector<std::string>(arguments.rbegin(), arguments.rend() - 1));  // CLI11 reads from the end
  } catch (const CLI::ArgumentMismatch&) {
    throw ConfigError(program + ": " + arguments.back() + " needs a value; see " + program + " --help");
  } catch (const CLI::ParseError& error) {
    throw ConfigError(program + ": the flags cannot be read: " + error.what());
  }
  invocation.help = help->count() > 0;
  if (invocation.help) return invocation;
  bool flags_ended = false;  // whether "--" has been read
  for (const std::string& rest : app.remaining()) {
    const bool is_end = rest == "--" && !flags_ended;
    flags_ended = flags_ended || is_end;
    if (is_end) continue;
    if (!flags_ended && rest.size() > 1 && rest.front() == '-') {
      const std::string word = rest.substr(0, rest.find('='));
      throw ConfigError(program + ": unknown flag '" + word + "'" +
                        did_you_mean(word, names, program + " --help"));
    }
    invocation.arguments.push_back(rest);
  }
  for (const auto& [name, option] : own) {
    if (option->count() == 0) continue;
    const bool takes_value = option->get_expected_min() > 0;
    const std::string& given = option->results().back();
    if (!takes_value && given != "true")
      throw ConfigError(program + ": --" + name + " takes no value, and was given '" + given + "'");
    if (takes_value) require_value(program, name, given, names);
    if (takes_value && given.empty())
      throw ConfigError(program + ": --" + name + " was given an empty value");
    invocation.own[name] = takes_value ? given : "";
  }
  std::vector<std::string> flags;
  for (const auto& [name, option] : shared) {
    if (option->count() == 0) continue;
    require_value(program, name, option->results().back(), names);
    flags.insert(flags.end(), {"--" + name, option->results().back()});
  }
  // Check the arguments last: if a flag's value is missing, the number of arguments may be wrong as a result,
  // but the error must name the missing value.
  check_arguments(spec, invocation.arguments);
  Invocation read = read_invocation(flags, environment);
  invocation.options = std::move(read.options);
  invocation.warnings = std::move(read.warnings);
  return invocation;
}

}  // namespace hearth
