// Renders the option table as --help, as the sample file, and as a documentation page. Called by main. Pure
// functions.
#pragma once

#include <string>

#include "config/command_table.h"

namespace hearth {

/// Returns the text of hearthd --help: the commands and the main options, in at most 25 lines of 80 columns.
std::string render_short_help();
/// Returns the text of hearthd --help all: options in groups, with default and environment variable, in at
/// most 80 columns.
std::string render_help();
/// Returns the text of hearthd COMMAND --help, in the same format.
std::string render_command_help(const CommandSpec& command);
/// Returns the text of config/hearth.toml: every key with its help, set to its default and commented out.
std::string render_sample_toml();
/// Returns the text of docs/configuration.md.
std::string render_markdown();

}  // namespace hearth
