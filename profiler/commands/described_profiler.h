// hearth-profiler's subcommands as its manual page and the completions of shells need them, read from CLI11.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace CLI {
class App;
}

namespace hearth {

/// The text that a hidden flag asks for: --help-man, --help-completion-bash, -zsh or -fish; nullopt for any other.
/// `app` has all its subcommands.
std::optional<std::string> generated_help(std::string_view flag, const CLI::App& app);

}  // namespace hearth
