// Tells what a file is when it is not the GGUF we read, so that the refusal can say what to do about it.
//
// Called by the part parser for files without GGUF's magic number. Pure; any thread.
#pragma once

#include <cstddef>
#include <span>
#include <string>

namespace hearth::gguf {

/// The rest of a sentence that began with the file's name: what the bytes (the whole file) look like, that
/// GGUF was expected, and what to do. Never fails.
std::string explain_foreign(std::span<const std::byte> bytes);

}  // namespace hearth::gguf
