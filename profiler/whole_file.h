// Files that are there whole or not at all, whoever else reads or writes them and whatever ends the program.
//
// Any thread.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

namespace hearth {

/// Writes the text to a file of another name beside it, brings it to the disk and gives it the name, in place
/// of what had it. Throws std::runtime_error, one sentence: what could not be done, why, and what to do; what
/// had the name is as it was then.
void write_whole_file(const std::filesystem::path& path, std::string_view text);

/// The bytes of a plain file of at most `max_bytes`. Throws std::runtime_error, one sentence.
std::string read_whole_file(const std::filesystem::path& path, size_t max_bytes);

}  // namespace hearth
