// Text functions for parsing heads and key files. They treat only ASCII letters, in any locale. Pure; any
// thread may call them.
#pragma once

#include <algorithm>
#include <string>
#include <string_view>

namespace hearth {

/// Removes the characters in `blank` at both ends of the text.
inline std::string_view trimmed(std::string_view text, std::string_view blank = " \t") {
  text.remove_prefix(std::min(text.find_first_not_of(blank), text.size()));
  return text.substr(0, text.find_last_not_of(blank) + 1);
}

inline std::string lowered(std::string_view text) {
  std::string out(text);
  for (char& c : out) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return out;
}

}  // namespace hearth
