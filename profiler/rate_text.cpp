// See the header.
#include "profiler/rate_text.h"

#include <spdlog/fmt/fmt.h>

#include <cmath>

#include "engine/model/gguf/fault.h"

namespace hearth {

std::string rate_text(double rate) {
  // From 999.5 on, three digits would need an exponent.
  if (rate >= 999.5) return gguf::with_commas(static_cast<uint64_t>(std::llround(rate)));
  return fmt::format("{:.3g}", rate);
}

}  // namespace hearth
