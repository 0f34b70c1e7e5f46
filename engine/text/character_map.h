// SentencePiece's precompiled character map, stored under the key tokenizer.ggml.precompiled_charsmap. It
// lists the replacements that a model makes in text before cutting the text into tokens. For example,
// full-width letters become plain ones (NFKC), and all white space becomes spaces.
//
// The key's bytes are a double array, which maps prefixes of text to offsets in a pool of strings (Aoe 1989;
// the bit layout is that of the Darts-clone library). Built at load; const and thread-safe afterward.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace hearth {

class CharacterMap {
 public:
  CharacterMap() = default;  // rewrites nothing
  /// bytes: the value stored under the key. Throws ModelFileError, which names the file, if the bytes are
  /// truncated.
  CharacterMap(std::string_view bytes, const std::string& file);

  struct Rewritten {
    std::string_view text;  // valid as long as this object and the input text
    size_t consumed;        // number of input bytes that `text` replaces, at least 1
  };
  /// Rewrites the front of text. If the map contains prefixes of text, replaces the longest one. Otherwise
  /// returns the first character unchanged, or U+FFFD for a byte that is not UTF-8. REQUIRES: text is not
  /// empty.
  Rewritten front(std::string_view text) const;

 private:
  std::vector<uint32_t> units_;  // the double array
  std::string pool_;             // strings, each with a 0 after it
};

}  // namespace hearth
