// The small file beside an unfinished download: of what file it is, and which of its bytes are there.
//
// It says no more than is true: it is written after the bytes it speaks of. A program that was killed has lost what came
// after the last writing; a machine that lost power may have lost more, which the checksum finds.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "server/models/byte_ranges.h"

namespace hearth {

/// A size above this is no model's: nothing is allocated or added up for it.
inline constexpr uint64_t kMostFileBytes = uint64_t{1} << 50;

struct PartState {
  std::string source;  // the URL that was asked for, without its query
  std::string
      validator;  // what tells this file from a later one at the URL: ETag or Last-Modified; may be empty
  std::string sha256;  // 64 hexadecimal digits, lower case; empty: unknown
  uint64_t size = 0;   // of the whole file
  ByteRanges done;
  bool checked = false;  // all bytes are there, and the checksum is right
};

std::string part_state_text(const PartState& state);
/// nullopt: it is no such text, or not one that can be true. Never throws.
std::optional<PartState> parse_part_state(std::string_view text);

/// Whether the text is a SHA-256: 64 hexadecimal digits, of any case.
bool is_sha256(std::string_view text);

}  // namespace hearth
