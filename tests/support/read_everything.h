// Calls every accessor of an opened model file on every key and tensor, and reads every byte to which they
// refer.
//
// For tests of damaged files and the fuzzer: every file that opens must be readable to its last byte under
// AddressSanitizer.
#pragma once

#include <cstdint>

#include "engine/model/model_file.h"

namespace hearth::test {

/// Returns a sum over all bytes read, so that the compiler cannot leave out a read. Throws only if something
/// is wrong.
uint64_t read_everything(const ModelFile& file);

}  // namespace hearth::test
