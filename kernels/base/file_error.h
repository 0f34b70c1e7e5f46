// The exception for invalid files, and helpers for its message: one sentence that names the file and quotes
// its contents safely.
//
// The messages carry bytes of possibly hostile files into logs and terminals, so these bytes must pass
// through quoted(). Called by all code that reads files, on any thread.
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>

namespace hearth {

/// The message is one sentence: which file, which tensor or key, what was found, what was expected, what to
/// do.
class ModelFileError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

namespace file_error {

/// `bytes` in double quotes, fit for a terminal: control bytes, quotes and bytes that are not UTF-8 become
/// \xNN, and what exceeds `limit` bytes of input becomes "...". The default suits keys and tensor names.
std::string quoted(std::string_view bytes, size_t limit = 96);

/// A file's path as the beginning of a message: like quoted(), without the quotes and with room for a long
/// path.
std::string file_label(std::string_view path);

/// "98,362,432", for sizes and counts.
std::string with_commas(uint64_t n);

/// Throws ModelFileError with "file: sentence". `file` is a file_label.
[[noreturn]] void fail(const std::string& file, const std::string& sentence);

}  // namespace file_error
}  // namespace hearth
