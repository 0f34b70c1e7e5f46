// How the subcommands' help is laid out: as CLI11 does it, in lines that a terminal holds.
#pragma once

#include <spdlog/fmt/fmt.h>

#include <CLI/CLI.hpp>
#include <string>

#include "config/wrapped_lines.h"

namespace hearth {

class HelpFormat : public CLI::Formatter {
 public:
  std::string make_option_desc(const CLI::Option* option) const override {
    constexpr size_t kWidth = 88;  // beside the names' column
    const std::string text = CLI::Formatter::make_option_desc(option);
    return fmt::to_string(fmt::join(wrapped_lines(text, kWidth), "\n"));
  }
};

}  // namespace hearth
