// SentencePiece's precompiled character map, the key tokenizer.ggml.precompiled_charsmap: the rewrites that a
// model applies to text before it is cut, such as full-width letters to plain ones (NFKC) and all white space
// to spaces.
//
// The bytes are a double array (Aoe 1989; with the bit layout of the Darts-clone library) that maps prefixes
// of text to offsets in a pool of strings. Built at load; const and thread-safe afterward.
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
  /// bytes: as in the file. Throws ModelFileError, which names the file, if they are truncated.
  CharacterMap(std::string_view bytes, const std::string& file);

  struct Rewritten {
    std::string_view text;  // valid as long as this object and the input text
    size_t consumed;        // bytes of the input that it replaces, at least 1
  };
  /// Rewrites the front of text: its longest prefix in the map, else its first character unchanged, or U+FFFD
  /// for a byte that is not UTF-8. REQUIRES: text is not empty.
  Rewritten front(std::string_view text) const;

 private:
  std::vector<uint32_t> units_;  // the double array
  std::string pool_;             // strings, each with a 0 after it
};

}  // namespace hearth
