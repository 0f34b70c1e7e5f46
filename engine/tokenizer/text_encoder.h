// Interface of the encoders from ordinary text to token ids, one for each kind of tokenizer. The tokenizer
// has already removed special tokens.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace hearth {

class TextEncoder {
 public:
  virtual ~TextEncoder() = default;
  /// Appends the ids of text, which may be any bytes. at_start: text begins the input or follows a special
  /// token.
  virtual void encode(std::string_view text, bool at_start, std::vector<int32_t>& out) const = 0;
};

}  // namespace hearth
