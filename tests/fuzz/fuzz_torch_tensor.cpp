// libFuzzer target: reads any bytes as a tensor or a dict of tensors that PyTorch saved. The input is read,
// or refused by ModelFileError and nothing else.
//
// Each input is tried as a file and, to get past the archive more often, as the pickle inside one. Built with
// the asan preset; ctest replays the committed corpus and continues for a fixed number of runs. One thread.
#include <cstddef>
#include <cstdint>
#include <span>

#include "engine/model/model_file.h"
#include "profiler/import/torch_tensor.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::span<const std::byte> bytes = std::as_bytes(std::span(data, size));
  try {
    hearth::read_torch_vector(bytes, "fuzz");
  } catch (const hearth::ModelFileError&) {
  }
  try {
    hearth::read_torch_state(bytes, "fuzz");
  } catch (const hearth::ModelFileError&) {
  }
  try {
    hearth::read_state_pickle(bytes, "fuzz");
  } catch (const hearth::ModelFileError&) {
  }
  try {
    hearth::read_tensor_pickle(bytes, "fuzz");
  } catch (const hearth::ModelFileError&) {
  }
  return 0;
}
