// Implements HelpFormat, number_from() and suggestion().
#include "profiler/options/command_line.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <charconv>
#include <optional>

#include "config/suggest.h"
#include "config/wrapped_lines.h"

namespace hearth {
namespace {

std::vector<std::string> names_of(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; }))
    names.push_back(command->get_name());
  return names;
}

std::vector<std::string> flags_of(const CLI::App& command) {
  std::vector<std::string> flags;
  for (const CLI::Option* option : command.get_options()) {
    for (const std::string& name : option->get_lnames()) flags.push_back("--" + name);
  }
  return flags;
}

}  // namespace

std::string HelpFormat::make_option_desc(const CLI::Option* option) const {
  constexpr size_t kWidth = 88;  // width of the descriptions, beside the column of names
  const std::string text = CLI::Formatter::make_option_desc(option);
  return fmt::to_string(fmt::join(wrapped_lines(text, kWidth), "\n"));
}

CLI::Validator number_from(double least, double most) {
  const auto refuse = [least, most](std::string& text) {
    double value = 0;
    const char* const end = text.data() + text.size();
    const std::from_chars_result read = std::from_chars(text.data(), end, value);
    if (read.ec == std::errc() && read.ptr == end && value >= least && value <= most) return std::string();
    return fmt::format("{} is not a number from {} to {}", text, least, most);
  };
  return {refuse, ""};
}

std::string parse_failure(const CLI::App& app, const CLI::ParseError& error) {
  const std::vector<CLI::App*> chosen = app.get_subcommands();
  const CLI::App& command = chosen.empty() ? app : *chosen.front();
  const std::string name = chosen.empty() ? "" : command.get_name() + ": ";
  const std::string help =
      "; see hearth-profiler " + (chosen.empty() ? "" : command.get_name() + " ") + "--help";
  const std::vector<std::string> unknown = app.remaining(true);
  const auto is_flag = [](const std::string& word) { return word.size() > 1 && word.front() == '-'; };
  if (chosen.empty() && !unknown.empty() && !is_flag(unknown.front())) {
    const std::vector<std::string> names = names_of(app);
    const std::optional<std::string> near = closest_name(unknown.front(), names);
    return fmt::format("there is no subcommand '{}', expected one of {}{}", unknown.front(),
                       fmt::join(names, ", "), near ? "; did you mean " + *near + "?" : "");
  }
  if (const auto flag = std::ranges::find_if(unknown, is_flag); flag != unknown.end()) {
    const std::string word = flag->substr(0, flag->find('='));
    const std::optional<std::string> near = closest_name(word, flags_of(command));
    return name + "unknown flag '" + word + "'" + (near ? "; did you mean " + *near + "?" : help);
  }
  if (!unknown.empty()) return name + "unexpected argument '" + unknown.front() + "'" + help;
  if (chosen.empty())
    return fmt::format("a subcommand is missing, expected one of {}{}", fmt::join(names_of(app), ", "), help);
  // CLI11 says, for example, "--model: 1 required FILE missing".
  const std::string said = error.what();
  if (dynamic_cast<const CLI::ArgumentMismatch*>(&error) != nullptr)
    return name + said.substr(0, said.find(':')) + " needs a value" + help;
  return name + said + help;
}

std::string suggestion(const std::string& name, const std::vector<std::string>& names) {
  const std::optional<std::string> near = closest_name(name, names);
  return near ? " Did you mean " + *near + "?" : "";
}

}  // namespace hearth
