// The option table as text: --help, the sample file, the page of the documentation. Called by main; pure.
#pragma once

#include <string>

#include "config/command_table.h"

namespace hearth {

/// Grouped, at most 80 columns, every option with its default and environment variable.
std::string render_help();
/// hearthd COMMAND --help, likewise.
std::string render_command_help(const CommandSpec& command);
/// config/hearth.toml: every key with its help, commented out at its default.
std::string render_sample_toml();
/// docs/configuration.md.
std::string render_markdown();

}  // namespace hearth
