// libFuzzer target: opens any bytes as a GGUF file. A file that opens is read to its last byte, and bound as
// a model if it is one; any other is refused by ModelFileError and nothing else.
//
// Built with the asan preset. fuzz_gguf tests/fuzz/corpus/gguf continues from the seeds; ctest replays them
// and continues for a fixed number of runs. One thread.
#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <stdexcept>
#include <string>

#include "engine/model/gguf/part.h"
#include "engine/model/model_file.h"
#include "engine/model/scale_check.h"
#include "engine/model/weights.h"
#include "kernels/cpu/cpu_backend.h"
#include "tests/support/read_everything.h"

namespace {

// A file in memory that has a path.
class MemoryFile {
 public:
  explicit MemoryFile(std::span<const uint8_t> bytes) : fd_(::memfd_create("gguf", MFD_CLOEXEC)) {
    if (fd_ < 0 || ::write(fd_, bytes.data(), bytes.size()) != static_cast<ssize_t>(bytes.size())) {
      throw std::runtime_error("no file in memory to be had");
    }
  }
  ~MemoryFile() { ::close(fd_); }
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;
  std::string path() const { return "/proc/self/fd/" + std::to_string(fd_); }

 private:
  int fd_;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::span<const uint8_t> bytes(data, size);
  try {
    // First parses libFuzzer's own copy, which ends where its heap block ends, so that any read beyond it is
    // found.
    hearth::gguf::parse_part(std::as_bytes(bytes), "fuzz");
    const MemoryFile file(bytes);
    const hearth::ModelFile opened = hearth::ModelFile::open(file.path());
    volatile uint64_t sum = hearth::test::read_everything(opened);
    static_cast<void>(sum);
    static hearth::CpuBackend backend(1, hearth::Isa::kScalar);
    const hearth::ModelSpec spec = hearth::read_model_spec(opened);
    const hearth::Weights weights = hearth::bind_weights(opened, spec);
    sum = weights.bytes_per_token(spec) + (weights.has_predictors() ? 1 : 0);
    hearth::check_scales(opened);
  } catch (const hearth::ModelFileError&) {
  }
  return 0;
}
