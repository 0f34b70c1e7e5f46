// libFuzzer target: reads any bytes as the file of a KV block. A file may be accepted only if it is complete
// and its bytes are those for which the header was written.
//
// Built with the asan preset; ctest replays the committed corpus and continues for a fixed number of runs.
// One thread.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>
#include <vector>

#include "engine/kv/block_files.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::span<const std::byte> bytes = std::as_bytes(std::span(data, size));
  // The first byte chooses the block, the rest is the file.
  if (bytes.empty()) return 0;
  hearth::DiskBlock block;
  block.tokens.resize(data[0] % 5);
  for (size_t i = 0; i < block.tokens.size(); ++i) block.tokens[i] = data[0] / 5 + static_cast<int32_t>(i);
  const std::span<const std::byte> given = bytes.subspan(1);
  for (const hearth::DiskPart part : {hearth::DiskPart::kBlock, hearth::DiskPart::kState}) {
    if (given.size() < hearth::disk_header_bytes(block.tokens.size())) {
      if (hearth::is_disk_file(block, part, given)) std::abort();
      continue;
    }
    std::vector<std::byte> file(given.begin(), given.end());
    hearth::fill_disk_header(block, part, file);
    const bool is_whole = std::equal(file.begin(), file.end(), given.begin(), given.end());
    if (hearth::is_disk_file(block, part, given) != is_whole) std::abort();
    if (!hearth::is_disk_file(block, part, file)) std::abort();
    file[size % file.size()] ^= std::byte{1};
    if (hearth::is_disk_file(block, part, file)) std::abort();
  }
  return 0;
}
