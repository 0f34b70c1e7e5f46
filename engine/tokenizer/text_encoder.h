// Interface of the encoders, which convert ordinary text to token ids. There is one encoder for each kind of
// tokenizer. The tokenizer removes special tokens from the text before it calls the encoder.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace hearth {

class TextEncoder {
 public:
  virtual ~TextEncoder() = default;
  /// Appends the ids of text, which may be any bytes. at_start: whether text begins the input or follows a
  /// special token.
  virtual void encode(std::string_view text, bool at_start, std::vector<int32_t>& out) const = 0;
};

}  // namespace hearth
