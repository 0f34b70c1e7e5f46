// Describes hearth-profiler's subcommands, using CLI11's data. The manual page and the shell completions are
// generated from the description.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace CLI {
class App;
}

namespace hearth {

/// Returns the text that a hidden flag prints (--help-man, --help-completion-bash, -zsh or -fish); nullopt
/// for any other flag. REQUIRES: `app` has all its subcommands.
std::optional<std::string> generated_help(std::string_view flag, const CLI::App& app);

}  // namespace hearth
