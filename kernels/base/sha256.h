// SHA-256 (FIPS 180-4). Some of Hearth's files contain hashes of the text and the model that they were made
// from.
//
// API keys are hashed with it too (server/gate/key_file.h), so its running time depends only on the length of
// the bytes, never on their values. Pure; any thread.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace hearth {

using Sha256 = std::array<uint8_t, 32>;

/// Hashes bytes that arrive in pieces.
class Sha256Stream {
 public:
  Sha256Stream();
  void add(std::span<const std::byte> bytes);
  /// Returns the hash of all added bytes. Call it once, last.
  Sha256 finish();

 private:
  static constexpr size_t kBlock = 64;  // bytes
  std::array<uint32_t, 8> state_;
  std::array<unsigned char, 2 * kBlock> rest_{};  // bytes that do not fill a block yet; finish() adds padding
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
