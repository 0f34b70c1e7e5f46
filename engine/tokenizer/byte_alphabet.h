// The alphabet in which byte-level BPE vocabularies spell bytes: each is one printable character.
//
// Printable Latin-1 bytes stand for themselves; the other 68, space and control bytes among them, take U+0100
// and on in order (Radford et al. 2019, GPT-2). Used when a vocabulary is loaded, never while encoding.
#pragma once

#include <string>
#include <string_view>

namespace hearth {

/// The bytes that a token's or merge's text spells. A character outside the alphabet (special tokens have
/// them) gives its own UTF-8 bytes; so does a byte that is not UTF-8.
std::string spelled_bytes(std::string_view text);

/// The text that spells bytes: the inverse of spelled_bytes.
std::string spell_bytes(std::string_view bytes);

}  // namespace hearth
