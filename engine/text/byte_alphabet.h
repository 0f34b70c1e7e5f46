// The alphabet in which byte-level BPE vocabularies spell bytes: one printable character per byte.
//
// Printable Latin-1 bytes stand for themselves; the other 68, including space and control bytes, take U+0100
// and following in order (Radford et al. 2019, GPT-2). Used when a vocabulary is loaded, never while
// encoding.
#pragma once

#include <string>
#include <string_view>

namespace hearth {

/// Returns the bytes that the text of a token or merge spells. A character outside the alphabet (special
/// tokens have them) gives its own UTF-8 bytes; so does a byte that is not UTF-8.
std::string spelled_bytes(std::string_view text);

/// Returns the text that spells the bytes: the inverse of spelled_bytes.
std::string spell_bytes(std::string_view bytes);

}  // namespace hearth
