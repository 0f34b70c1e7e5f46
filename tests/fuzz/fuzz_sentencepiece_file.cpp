// libFuzzer target: reads any bytes as a tokenizer.model. The file is read, or refused by ModelFileError and
// nothing else.
//
// Built with the asan preset; ctest replays the committed corpus and continues for a fixed number of runs.
// One thread.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "engine/model/model_file.h"
#include "profiler/convert/sentencepiece_file.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  try {
    hearth::convert::read_sentencepiece_file({reinterpret_cast<const char*>(data), size}, "fuzz");
  } catch (const hearth::ModelFileError&) {
  }
  return 0;
}
