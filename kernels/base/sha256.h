// SHA-256 (FIPS 180-4), by which files tell which text and which model they were made with.
//
// Also the hash of API keys (server/gate/key_file.h): what is done depends on the length of the bytes, never on the
// bytes. Pure; any thread.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace hearth {

using Sha256 = std::array<uint8_t, 32>;

/// The hash of bytes that come in pieces.
class Sha256Stream {
 public:
  Sha256Stream();
  void add(std::span<const std::byte> bytes);
  /// The hash of all that was added. Call it once, last.
  Sha256 finish();

 private:
  static constexpr size_t kBlock = 64;  // bytes
  std::array<uint32_t, 8> state_;
  std::array<unsigned char, 2 * kBlock> rest_{};  // fewer bytes than a block, until the last
  size_t n_rest_ = 0;
  uint64_t n_bytes_ = 0;
};

Sha256 sha256(std::span<const std::byte> bytes);
Sha256 sha256(std::string_view bytes);

/// 64 hexadecimal digits.
std::string hex_text(const Sha256& hash);

/// 64 hexadecimal digits, as sha256sum prints them.
std::string sha256_hex(std::string_view bytes);

}  // namespace hearth
