// Texts in, results out, for subcommands.
#pragma once

#include <string>
#include <string_view>

namespace hearth {

/// The bytes of a file that `option` names: a text, or counts. Throws std::runtime_error (one sentence) if it
/// cannot be read, is empty, or has more than 1 GiB.
std::string read_text(const std::string& path, std::string_view option);

/// Prints a result on the standard output; throws std::runtime_error (one sentence) if that fails: what could
/// not be written (a full disk, say) must not look like success.
void print_result(const std::string& text);

}  // namespace hearth
