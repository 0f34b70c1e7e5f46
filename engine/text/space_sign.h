// U+2581, which stands for a space in all vocabularies except byte-level BPE. Pure functions, any thread.
#pragma once

#include <string>
#include <string_view>

namespace hearth {

inline constexpr std::string_view kSpaceSign = "\xE2\x96\x81";

/// Appends text to out with its spaces replaced by U+2581.
inline void append_with_space_signs(std::string_view text, std::string& out) {
  for (const char c : text) {
    if (c == ' ') {
      out.append(kSpaceSign);
    } else {
      out.push_back(c);
    }
  }
}

}  // namespace hearth
