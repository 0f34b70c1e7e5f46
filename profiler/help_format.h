// How the subcommands' help is laid out: as CLI11 does it, in lines that a terminal holds.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

#include "profiler/wrapped_lines.h"

namespace hearth {

class HelpFormat : public CLI::Formatter {
 public:
  std::string make_option_desc(const CLI::Option* option) const override {
    constexpr size_t kWidth = 88;  // beside the names' column
    std::string text;
    for (const std::string& line : wrapped_lines(CLI::Formatter::make_option_desc(option), kWidth)) {
      text += (text.empty() ? "" : "\n") + line;
    }
    return text;
  }
};

}  // namespace hearth
