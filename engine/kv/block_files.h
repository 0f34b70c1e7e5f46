// Files of KV blocks and recurrent states: one file for each KV block of a cached prefix, and one for each
// snapshot of recurrent states.
//
// A file's name is a hash over the model's identity and all tokens up to the end of its KV block, so prefixes
// with a common beginning share files. A file is written under another name and then renamed. It is not
// synced: a checksum over the whole file shows whether all of it was written. A reader compares the tokens,
// too, and trusts no size in the file. Several programs may use a folder at the same time, and anyone may
// delete files in it; a missing file only means that its tokens are computed again. The files contain what
// users wrote, so only their owner may read them.
//
// The modification time of a file says when its prefix was last used; it is older for later KV blocks of a
// prefix. If the files exceed the limit, the oldest are deleted, whichever model they belong to. So a prefix
// loses its end before its beginning.
//
// Used by DiskCache. The functions without an object are pure. An object belongs to one thread, but threads
// may use several objects for one folder.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "kernels/base/sha256.h"

namespace hearth {

/// Names a prefix: the hash of its model's identity and of all its tokens.
using PrefixKey = Sha256;
/// Returns the key of the prefix that continues the prefix `parent` by one KV block. The parent of a first KV
/// block is the model's identity.
PrefixKey key_after(const PrefixKey& parent, std::span<const int32_t> tokens);

/// The content of a file: the keys and values of a KV block, or recurrent states after it.
enum class DiskPart : uint8_t { kBlock, kState };

/// The KV block that a file belongs to.
struct DiskBlock {
  PrefixKey parent{};
  std::vector<int32_t> tokens;  // of the KV block

  PrefixKey key() const { return key_after(parent, tokens); }
};

/// Bytes in a file before the keys and values.
constexpr size_t disk_header_bytes(size_t n_tokens) { return 72 + sizeof(int32_t) * n_tokens; }
/// Fills the first disk_header_bytes() bytes of a file whose other bytes are already there. REQUIRES: the
/// file has at least that many bytes.
void fill_disk_header(const DiskBlock& block, DiskPart part, std::span<std::byte> file);
/// Whether these bytes are the whole file of this KV block, undamaged. The bytes may be anything.
bool is_disk_file(const DiskBlock& block, DiskPart part, std::span<const std::byte> file);

class BlockFiles {
 public:
  using Time = std::chrono::system_clock::time_point;

  /// The folder need not exist. max_bytes: limit for all files in it.
  BlockFiles(std::filesystem::path folder, uint64_t max_bytes)
      : folder_(std::move(folder)), max_bytes_(max_bytes) {}

  bool has(const PrefixKey& key, DiskPart part) const;
  /// Reads a file of n_bytes, header included. Returns false if the file is missing or is not exactly this
  /// KV block's file; a file with other contents is deleted.
  bool read(const DiskBlock& block, DiskPart part, size_t n_bytes, std::vector<std::byte>& file) const;
  /// Writes a file, whose header is filled, unless it is there. Deletes old files if necessary. Returns the
  /// reason if the file could not be written, as a phrase.
  std::optional<std::string> write(const PrefixKey& key, DiskPart part, std::span<const std::byte> file,
                                   Time used);
  /// Sets the time of the last use, if the file exists.
  void touch(const PrefixKey& key, DiskPart part, Time used) const;

  /// Deletes a file, if it exists.
  void remove(const PrefixKey& key, DiskPart part) const;

  struct Contents {
    uint64_t bytes = 0;
    int64_t n_files = 0;
  };
  /// Counts the files. If they and n_needed further bytes exceed the limit, deletes the oldest. Also deletes
  /// the unfinished files of writers that were killed.
  Contents tidy(uint64_t n_needed = 0);
  /// The contents as of the last tidy(), plus what this object has written since.
  const Contents& contents() const { return contents_; }

 private:
  std::filesystem::path path_of(const PrefixKey& key, DiskPart part) const;
  std::optional<std::string> write_new(const std::filesystem::path& path, std::span<const std::byte> file,
                                       Time used) const;

  std::filesystem::path folder_;
  uint64_t max_bytes_;
  Contents contents_;
  uint64_t written_since_tidy_ = 0;
  bool tidied_ = false;
};

}  // namespace hearth
