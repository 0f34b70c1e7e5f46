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

/// Returns `bytes` in double quotes, safe to print in a terminal. Control bytes, quotes and bytes that are
/// not UTF-8 become \xNN. Input after the first `limit` bytes is replaced by "...". The default limit suits
/// keys and tensor names.
std::string quoted(std::string_view bytes, size_t limit = 96);

/// Returns `path` as text for the beginning of a message. Control bytes are escaped as in quoted(), but there
/// are no quotes, and the length limit suits paths.
std::string file_label(std::string_view path);

/// Returns n with thousands separators, for example "98,362,432".
std::string with_commas(uint64_t n);

/// Throws ModelFileError with "file: sentence". `file` is a result of file_label().
[[noreturn]] void fail(const std::string& file, const std::string& sentence);

}  // namespace file_error
}  // namespace hearth
