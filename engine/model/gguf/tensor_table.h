// The list of tensors of one GGUF file: read, and checked against the format's rules and the file's size.
//
// Called by the part parser after the keys. See TensorInfo in engine/model/model_file.h for what comes out.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "engine/model/gguf/cursor.h"
#include "engine/model/model_file.h"

namespace hearth::gguf {

/// Reads `count` entries at the cursor, which belongs to the file `bytes`, and finds their data in what
/// follows. Each has 1 to 4 dimensions, none zero, whole blocks in a row, a type of ours, and data at a
/// multiple of `alignment` inside the file that overlaps no other's. Throws ModelFileError. Names are checked
/// to be unique by the caller.
std::vector<TensorInfo> read_tensors(Cursor& cursor, std::span<const std::byte> bytes,
                                     const std::string& file, uint64_t count, uint64_t alignment);

}  // namespace hearth::gguf
