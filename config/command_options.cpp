// Implements add_options().
#include "config/command_options.h"

#include <CLI/CLI.hpp>
#include <cassert>
#include <string>
#include <vector>

#include "config/option_table.h"

namespace hearth {
namespace {

void add_option(CLI::App& command, const OptionSpec& spec, Options& options) {
  const std::string help = help_text(spec);
  if (const FlagField* flag = std::get_if<FlagField>(&spec.field)) {
    command.add_flag(flag_names(spec), options.*flag->member, help);
    return;
  }
  const auto assign_it = [&spec, &options](const std::string& text) {
    if (assign(spec, {text}, options)) return;
    throw CLI::ValidationError("--" + std::string(spec.name),
                               "'" + text + "' was given, expected " + expectation(spec));
  };
  command.add_option_function<std::string>(flag_names(spec), assign_it, help)
      ->type_name(std::string(spec.value))
      ->default_str(value_text(spec, options))
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
}

}  // namespace

void add_options(CLI::App& command, std::initializer_list<std::string_view> names, Options& options) {
  for (const std::string_view name : names) {
    const OptionSpec* spec = find_option(Program::kProfiler, name);
    assert(spec != nullptr);
    add_option(command, *spec, options);
  }
}

}  // namespace hearth
