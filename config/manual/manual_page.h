// Renders manual pages for man(1) with roff's man macros. Both programs call this when the user requests a
// page. Pure functions.
#pragma once

#include <string>

#include "config/manual/described_program.h"

namespace hearth {

/// Returns the program's page in section 1.
std::string render_manual(const DescribedProgram& program);
/// Returns the manual page hearth.toml(5), which describes the keys of hearthd's configuration file. It is
/// built from the option table.
std::string render_file_manual();

}  // namespace hearth
