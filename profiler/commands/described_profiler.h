// Describes hearth-profiler's subcommands for its manual page and the shell completions, from CLI11's data.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace CLI {
class App;
}

namespace hearth {

/// The text for a hidden flag: --help-man, --help-completion-bash, -zsh or -fish; nullopt for any other flag.
/// REQUIRES: `app` has all its subcommands.
std::optional<std::string> generated_help(std::string_view flag, const CLI::App& app);

}  // namespace hearth
