// Helpers for subcommands' command lines: the layout of the help, checks of numbers, suggestions for
// misspelled names.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace hearth {

/// CLI11's layout of the help, with descriptions wrapped to fit a terminal of 120 columns.
class HelpFormat : public CLI::Formatter {
 public:
  std::string make_option_desc(const CLI::Option* option) const override;
};

/// Accepts a number from `least` to `most`. CLI::Range accepts "nan", which is neither below nor above.
CLI::Validator number_from(double least, double most);

/// " Did you mean rtx4090?" if one of `names` is close to `name`, otherwise "".
std::string suggestion(const std::string& name, const std::vector<std::string>& names);

}  // namespace hearth
