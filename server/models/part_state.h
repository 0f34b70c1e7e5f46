// The state file of an unfinished download: which file it is, and which of its bytes are present.
//
// It is written after the bytes it lists, so it never claims too much. A killed program loses the progress
// since the last save; a power cut may lose more, which the checksum detects.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "server/models/byte_ranges.h"

namespace hearth {

/// No model is larger; sizes above this are rejected before allocation or arithmetic.
inline constexpr uint64_t kMostFileBytes = uint64_t{1} << 50;

struct PartState {
  std::string source;     // requested URL, without its query
  std::string validator;  // ETag or Last-Modified, which changes with the file; may be empty
  std::string sha256;     // 64 hexadecimal digits, lower case; empty: unknown
  uint64_t size = 0;      // size of the whole file
  ByteRanges done;
  bool checked = false;  // all bytes are present and the checksum is correct
};

std::string part_state_text(const PartState& state);
/// Returns nullopt if the text is malformed or cannot be true. Never throws.
std::optional<PartState> parse_part_state(std::string_view text);

/// Whether the text is a SHA-256: 64 hexadecimal digits, in either case.
bool is_sha256(std::string_view text);

}  // namespace hearth
