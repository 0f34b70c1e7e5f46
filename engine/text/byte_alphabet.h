// The alphabet in which byte-level BPE vocabularies spell bytes: one printable character per byte.
//
// Printable Latin-1 bytes represent themselves; the other 68, including space and control bytes, are written
// as U+0100 and the code points after it, in order (Radford et al. 2019, GPT-2). Used when a vocabulary is
// loaded, never while encoding.
#pragma once

#include <string>
#include <string_view>

namespace hearth {

/// Returns the bytes that the text of a token or merge spells. A character outside the alphabet, as in
/// special tokens, stands for its own UTF-8 bytes. A byte of text that is not valid UTF-8 stands for itself.
std::string spelled_bytes(std::string_view text);

/// Returns the text that spells the bytes: the inverse of spelled_bytes.
std::string spell_bytes(std::string_view bytes);

}  // namespace hearth
