// A position in untrusted bytes from which values are read. Every read is first checked against the remaining
// bytes.
//
// The GGUF parser reads a file through a cursor, and ModelFile's accessors use cursors to read arrays again.
// A cursor stores the kind and name of the item that is being read ("key", "tensor"), so that the error
// message of a read past the end can name the item. Not shared by threads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>

namespace hearth::gguf {

class Cursor {
 public:
  /// Reads `bytes` from offset `at` on. `file` is a file_label for messages; both must outlive the cursor.
  Cursor(std::span<const std::byte> bytes, const std::string& file, size_t at = 0)
      : bytes_(bytes), file_(&file), at_(at) {}

  /// Sets the item that error messages name. Call enter("key", 3) before reading an item, and name_it(name)
  /// once its name has been read. `kind` must outlive the cursor.
  void enter(std::string_view kind, uint64_t number = 0);
  void name_it(std::string_view name);
  /// Returns the current item: "key "general.name"", or "key number 4" until its name is set.
  std::string place() const;

  /// Reads a little-endian number. Like all reads below, throws ModelFileError if the read would pass the
  /// end.
  template <typename T>
  T read() {
    static_assert(std::is_arithmetic_v<T>);
    T value;
    std::memcpy(&value, take(sizeof(T)).data(), sizeof(T));
    return value;
  }
  /// Reads a length, stored in eight bytes, and returns a view of that many bytes after it.
  std::string_view read_string();
  /// Returns a view of the next `n` bytes and moves past them.
  std::span<const std::byte> take(uint64_t n);

  size_t at() const { return at_; }
  size_t remaining() const { return bytes_.size() - at_; }

  /// Throws ModelFileError with "file: place sentence".
  [[noreturn]] void fail(const std::string& sentence) const;

 private:
  std::span<const std::byte> bytes_;
  const std::string* file_;
  size_t at_;
  std::string_view kind_ = "header";
  std::string_view name_;
  uint64_t number_ = 0;
};

}  // namespace hearth::gguf
