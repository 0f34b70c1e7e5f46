// SentencePiece's precompiled character map, the key tokenizer.ggml.precompiled_charsmap: what a model rewrites in text
// before it is cut, such as full-width letters to plain ones (NFKC) and all white space to spaces.
//
// The bytes are a double array (Aoe 1989; the bit layout is that of the Darts-clone library) that maps prefixes of text
// to places in a pool of strings. Built at load; const and thread-safe afterwards.
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
  /// bytes: as the file has them. Throws ModelFileError, which names the file, if they are cut short.
  CharacterMap(std::string_view bytes, const std::string& file);

  struct Rewritten {
    std::string_view text;  // valid as long as this and the text that was asked about
    size_t consumed;        // bytes of the text that it stands for, at least 1
  };
  /// Rewrites the front of text: its longest prefix in the map, else its first character as it is, or U+FFFD for a byte
  /// that is not UTF-8. REQUIRES: text is not empty.
  Rewritten front(std::string_view text) const;

 private:
  std::vector<uint32_t> units_;  // of the double array
  std::string pool_;             // strings, each with a 0 after it
};

}  // namespace hearth
