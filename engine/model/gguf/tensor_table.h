// Reads the list of tensors of one GGUF file, and checks it against the format's rules and the file's size.
//
// Called by the part parser after the keys. The result's type is TensorInfo in engine/model/model_file.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "engine/model/gguf/cursor.h"
#include "engine/model/model_file.h"

namespace hearth::gguf {

/// Reads `count` entries at the cursor, which belongs to the file `bytes`, and locates their data after the
/// entries. Each tensor must have 1 to 4 dimensions, none zero; whole weight blocks in a row; a supported
/// type; and data inside the file, aligned to `alignment` and not overlapping another tensor's. Throws
/// ModelFileError. The caller checks that names are unique.
std::vector<TensorInfo> read_tensors(Cursor& cursor, std::span<const std::byte> bytes,
                                     const std::string& file, uint64_t count, uint64_t alignment);

}  // namespace hearth::gguf
