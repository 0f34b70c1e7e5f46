// libFuzzer target: reads any bytes as PowerInfer's GPU index for a model with two layers of five neurons.
// The index is read, or refused by ModelFileError and nothing else.
//
// Built with the asan preset; ctest replays the committed corpus and continues for a fixed number of runs.
// One thread.
#include <cstddef>
#include <cstdint>
#include <span>

#include "engine/activity/gpu_index.h"
#include "engine/model/model_file.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  try {
    hearth::activity::parse_gpu_index(std::as_bytes(std::span(data, size)), "fuzz", 2, 5);
  } catch (const hearth::ModelFileError&) {
  }
  return 0;
}
