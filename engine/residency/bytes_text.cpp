// See the header.
#include "engine/residency/bytes_text.h"

#include <cstdio>

namespace hearth {

std::string bytes_text(double bytes) {
  char text[32];
  if (bytes < 1e6) {
    std::snprintf(text, sizeof text, "%.0f KB", bytes / 1e3);
  } else if (bytes < 1e9) {
    std::snprintf(text, sizeof text, "%.1f MB", bytes / 1e6);
  } else {
    std::snprintf(text, sizeof text, "%.2f GB", bytes / 1e9);
  }
  return text;
}

}  // namespace hearth
