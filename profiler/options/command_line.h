// Helpers for the command lines of subcommands: the layout of the help text, number checks, and suggestions
// for misspelled names.
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

/// Returns a check that accepts a number from `least` to `most`. CLI::Range would accept "nan", because NaN
/// is neither below nor above.
CLI::Validator number_from(double least, double most);

/// Returns one sentence about a command line that CLI11 refused, without the program's name: "bench: unknown
/// flag '--sloots'; did you mean --slots?".
std::string parse_failure(const CLI::App& app, const CLI::ParseError& error);

/// Returns, for example, " Did you mean rtx4090?" if one of `names` is similar to `name`; otherwise "".
std::string suggestion(const std::string& name, const std::vector<std::string>& names);

}  // namespace hearth
