// See the header.
#include "engine/generation/repetition.h"

#include <array>
#include <cstddef>

namespace hearth {

bool repeats_itself(std::span<const int32_t> tokens) {
  if (tokens.size() < kRepeatingTokens) return false;
  const std::span<const int32_t> text = tokens.last(kRepeatingTokens);
  // border[i]: length of the longest proper prefix of text[0, i] that is also its suffix (Knuth, Morris and
  // Pratt 1977). The shortest period of the text is its length minus its longest border.
  std::array<size_t, kRepeatingTokens> border{};
  for (size_t i = 1; i < text.size(); ++i) {
    size_t length = border[i - 1];
    while (length > 0 && text[i] != text[length]) length = border[length - 1];
    border[i] = text[i] == text[length] ? length + 1 : 0;
  }
  return text.size() - border.back() <= kMostRepeated;
}

}  // namespace hearth
