// Copies model files with changed numbers in their keys, to run a small model with a longer context or
// another window.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>

namespace hearth::testing {

/// Writes a copy of a GGUF file in which each key that ends in a name of `keys` has the given number. Throws
/// std::runtime_error if the file has no such key of type uint32.
void write_changed(const std::filesystem::path& from, const std::filesystem::path& to,
                   const std::map<std::string, uint32_t>& keys);

}  // namespace hearth::testing
