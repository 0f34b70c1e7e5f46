// Memory that programs can have without others being swapped out.
#pragma once

#include <cstddef>

namespace hearth {

/// Of this machine, now, in bytes; 0 if the system does not say.
size_t available_bytes();

}  // namespace hearth
