// libFuzzer target: reads any bytes as a safetensors file. The file is read, or refused by ModelFileError and
// nothing else; everything read is within the file.
//
// Built with the asan preset; ctest replays the committed corpus and continues for a fixed number of runs.
// One thread.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "engine/model/model_file.h"
#include "profiler/convert/safetensors.h"

namespace {

void read(std::span<const std::byte> bytes) {
  static const std::string kLabel = "fuzz";
  try {
    uint64_t sum = 0;
    for (const hearth::convert::StoredTensor& tensor : hearth::convert::read_safetensors(bytes, kLabel)) {
      if (!tensor.bytes.empty() &&
          (tensor.bytes.data() < bytes.data() || &tensor.bytes.back() > &bytes.back()))
        std::abort();
      for (const std::byte byte : tensor.bytes) sum += static_cast<uint64_t>(byte);
    }
    volatile uint64_t kept = sum;
    static_cast<void>(kept);
  } catch (const hearth::ModelFileError&) {
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  read(std::as_bytes(std::span(data, size)));
  // Read the input again with a correct header length before it, to get past the first check more often. The
  // last quarter of the input is the file's data.
  const size_t n_header = size - size / 4;
  std::vector<std::byte> whole(8 + size);
  const uint64_t length = n_header;
  std::memcpy(whole.data(), &length, 8);
  if (size > 0) std::memcpy(whole.data() + 8, data, size);
  read(whole);
  return 0;
}
