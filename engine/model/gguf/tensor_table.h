// Reads the list of tensors in one GGUF file, and checks the list against the format's rules and the file's
// size.
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

/// Reads `count` tensor entries, and locates the tensors' data, which follows the entries. The cursor must be
/// at the first entry; `bytes` is the whole file that it reads. A tensor must have 1 to 4 nonzero dimensions,
/// rows of whole weight blocks, and a supported type. Its data must be inside the file, aligned to
/// `alignment`, and must not overlap the data of any other tensor. Throws ModelFileError. The caller checks
/// that names are unique.
std::vector<TensorInfo> read_tensors(Cursor& cursor, std::span<const std::byte> bytes,
                                     const std::string& file, uint64_t count, uint64_t alignment);

}  // namespace hearth::gguf
