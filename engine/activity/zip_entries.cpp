// The end record leads to the directory, the directory to each file's own header, the header to its bytes.
#include "engine/activity/zip_entries.h"

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "engine/model/gguf/cursor.h"
#include "engine/model/gguf/fault.h"

namespace hearth::activity {
namespace {

constexpr uint32_t kFileSignature = 0x04034b50;
constexpr uint32_t kDirectorySignature = 0x02014b50;
constexpr uint32_t kEndSignature = 0x06054b50;
constexpr size_t kEndBytes = 22;           // the end record without its comment
constexpr size_t kLongestComment = 65535;  // its length is a uint16

constexpr const char* kAgain = ": it is damaged; download it again";

uint32_t signature_at(std::span<const std::byte> bytes, size_t at) {
  uint32_t signature = 0;
  std::memcpy(&signature, bytes.data() + at, sizeof signature);
  return signature;
}

// Where the end record begins: the last place with its signature.
size_t find_end(std::span<const std::byte> bytes, const std::string& file) {
  if (bytes.size() >= kEndBytes) {
    const size_t last = bytes.size() - kEndBytes;
    const size_t first = last - std::min(last, kLongestComment);
    for (size_t at = last + 1; at-- > first;) {
      if (signature_at(bytes, at) == kEndSignature) return at;
    }
  }
  gguf::fail(file, "it is a zip archive without a directory at its end: it is truncated; download it again");
}

// A cursor at a place that the file gives, which must lie inside it.
gguf::Cursor cursor_at(std::span<const std::byte> bytes, const std::string& file, uint64_t at,
                       std::string_view kind) {
  gguf::Cursor cursor(bytes, file);
  cursor.enter(kind);
  cursor.take(at);
  return cursor;
}

void expect_signature(gguf::Cursor& cursor, uint32_t expected) {
  const size_t at = cursor.at();
  if (cursor.read<uint32_t>() != expected) {
    cursor.fail("has no signature at byte " + gguf::with_commas(at) + kAgain);
  }
}

std::string_view as_text(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// The file's own header repeats name and sizes; its lengths are its own, and its sizes may be left to a
// record behind the data.
std::span<const std::byte> data_at(std::span<const std::byte> bytes, const std::string& file, uint64_t at,
                                   uint32_t size, std::string_view name) {
  gguf::Cursor cursor = cursor_at(bytes, file, at, "zip entry");
  cursor.name_it(name);
  expect_signature(cursor, kFileSignature);
  cursor.take(22);  // version, flags, method, time, checksum, sizes
  const uint16_t name_bytes = cursor.read<uint16_t>();
  const uint16_t extra_bytes = cursor.read<uint16_t>();
  cursor.take(uint64_t{name_bytes} + extra_bytes);
  return cursor.take(size);
}

ZipEntry read_entry(gguf::Cursor& directory, std::span<const std::byte> bytes, const std::string& file) {
  expect_signature(directory, kDirectorySignature);
  directory.take(4);  // versions
  const uint16_t flags = directory.read<uint16_t>();
  const uint16_t method = directory.read<uint16_t>();
  directory.take(8);  // time, checksum
  const uint32_t packed_bytes = directory.read<uint32_t>();
  const uint32_t unpacked_bytes = directory.read<uint32_t>();
  const uint16_t name_bytes = directory.read<uint16_t>();
  const uint16_t extra_bytes = directory.read<uint16_t>();
  const uint16_t comment_bytes = directory.read<uint16_t>();
  directory.take(8);  // disk, attributes
  const uint32_t at = directory.read<uint32_t>();
  ZipEntry entry;
  entry.name = as_text(directory.take(name_bytes));
  directory.take(uint64_t{extra_bytes} + comment_bytes);
  constexpr uint16_t kEncrypted = 1;
  if (method != 0 || (flags & kEncrypted) != 0 || packed_bytes != unpacked_bytes) {
    gguf::fail(file,
               "zip entry " + gguf::quoted(entry.name) +
                   " is compressed or encrypted, expected it stored as PyTorch does; save the tensor again "
                   "with torch.save");
  }
  entry.data = data_at(bytes, file, at, unpacked_bytes, entry.name);
  return entry;
}

}  // namespace

std::vector<ZipEntry> read_zip_entries(std::span<const std::byte> bytes, const std::string& file) {
  gguf::Cursor end = cursor_at(bytes, file, find_end(bytes, file), "zip end record");
  end.take(10);  // signature, disks, entries on this disk
  const uint16_t count = end.read<uint16_t>();
  end.take(4);  // bytes of the directory
  gguf::Cursor directory = cursor_at(bytes, file, end.read<uint32_t>(), "zip directory");
  std::vector<ZipEntry> entries;  // grows with what is read, not with what is claimed
  for (uint16_t i = 0; i < count; ++i) entries.push_back(read_entry(directory, bytes, file));
  return entries;
}

}  // namespace hearth::activity
