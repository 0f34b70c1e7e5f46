// Implements HelpFormat, number_from() and suggestion().
#include "profiler/options/command_line.h"

#include <spdlog/fmt/fmt.h>

#include <charconv>
#include <optional>

#include "config/suggest.h"
#include "config/wrapped_lines.h"

namespace hearth {

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

std::string suggestion(const std::string& name, const std::vector<std::string>& names) {
  const std::optional<std::string> near = closest_name(name, names);
  return near ? " Did you mean " + *near + "?" : "";
}

}  // namespace hearth
