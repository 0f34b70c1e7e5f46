// What options that are numbers may be.
#pragma once

#include <spdlog/fmt/fmt.h>

#include <CLI/CLI.hpp>
#include <charconv>
#include <string>

namespace hearth {

/// A number from `least` to `most`. CLI::Range lets what is no number pass: "nan" is not below and not above.
inline CLI::Validator number_from(double least, double most) {
  const auto refuse = [least, most](std::string& text) {
    double value = 0;
    const char* const end = text.data() + text.size();
    const std::from_chars_result read = std::from_chars(text.data(), end, value);
    if (read.ec == std::errc() && read.ptr == end && value >= least && value <= most) return std::string();
    return fmt::format("{} is no number from {} to {}", text, least, most);
  };
  return {refuse, ""};
}

}  // namespace hearth
