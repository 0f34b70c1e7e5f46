// Converts 16-bit floats to float32 and back in portable code, for tails and headers that vector code does
// not handle.
#pragma once

#include <cstdint>

namespace hearth {

/// IEEE 754 binary16 to float32, exact; infinities and NaNs are preserved.
float float_from_half(uint16_t half);

/// float32 to the nearest binary16, ties to even; values that are too large become infinity, NaN stays NaN.
uint16_t half_from_float(float value);

/// bfloat16 to float32, exact.
float float_from_bfloat16(uint16_t bits);

/// float32 to the nearest bfloat16, ties to even; NaN stays NaN.
uint16_t bfloat16_from_float(float value);

}  // namespace hearth
