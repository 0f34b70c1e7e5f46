// Renders manual pages for man(1) in roff's man macros. Both programs call this when they are asked for a
// page; pure.
#pragma once

#include <string>

#include "config/manual/described_program.h"

namespace hearth {

/// The program's page of section 1.
std::string render_manual(const DescribedProgram& program);
/// hearth.toml(5): the keys of hearthd's configuration file, from the option table.
std::string render_file_manual();

}  // namespace hearth
