// The entries of a zip archive that stores its files uncompressed, as PyTorch's are.
//
// Used by the reader of torch tensors. The central directory is what counts (PKWARE's APPNOTE 4.3), as for
// PyTorch itself; its record for large archives (zip64) is not needed, for no file of counts comes near 4
// GiB. Checksums are not compared: a wrong count changes where a neuron lies, not what is computed. Pure; any
// thread.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace hearth::activity {

struct ZipEntry {
  std::string_view name;
  std::span<const std::byte> data;
};

/// All entries, in the directory's order; they point into `bytes`, a whole file. `file` is a
/// gguf::file_label. Throws ModelFileError: no archive, damaged, compressed or encrypted.
std::vector<ZipEntry> read_zip_entries(std::span<const std::byte> bytes, const std::string& file);

}  // namespace hearth::activity
