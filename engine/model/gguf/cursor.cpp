// Checked reads, and the error messages of reads that fail.
#include "engine/model/gguf/cursor.h"

#include <bit>

#include "kernels/base/file_error.h"

namespace hearth::gguf {

static_assert(std::endian::native == std::endian::little, "GGUF is read as it lies in memory");

void Cursor::enter(std::string_view kind, uint64_t number) {
  kind_ = kind;
  name_ = {};
  number_ = number;
}

void Cursor::name_it(std::string_view name) { name_ = name; }

std::string Cursor::place() const {
  std::string place(kind_);
  if (!name_.empty()) return place + ' ' + file_error::quoted(name_);
  return number_ == 0 ? place : place + " number " + std::to_string(number_);
}

std::span<const std::byte> Cursor::take(uint64_t n) {
  if (n > remaining()) {
    fail("needs " + file_error::with_commas(n) + " bytes at byte " + file_error::with_commas(at_) +
         ", but the file ends at byte " + file_error::with_commas(bytes_.size()) +
         ": it is truncated or corrupt; download it again");
  }
  const std::span<const std::byte> taken = bytes_.subspan(at_, static_cast<size_t>(n));
  at_ += static_cast<size_t>(n);
  return taken;
}

std::string_view Cursor::read_string() {
  const uint64_t length = read<uint64_t>();
  const std::span<const std::byte> bytes = take(length);
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

void Cursor::fail(const std::string& sentence) const { file_error::fail(*file_, place() + ' ' + sentence); }

}  // namespace hearth::gguf
