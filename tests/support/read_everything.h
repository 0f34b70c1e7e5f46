// Calls every accessor of an opened model file on every key and tensor, and reads every byte they lead to.
//
// For tests of damaged files and the fuzzer: whatever opens must be readable to its last byte under
// AddressSanitizer.
#pragma once

#include <cstdint>

#include "engine/model/model_file.h"

namespace hearth::test {

/// A sum over all that was read, so that no read can be left out by the compiler. Throws nothing but what is
/// a fault.
uint64_t read_everything(const ModelFile& file);

}  // namespace hearth::test
