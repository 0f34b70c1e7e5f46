// Amounts of memory for people.
#pragma once

#include <string>

namespace hearth {

/// "812 KB", "13.4 MB", "5.81 GB": decimal, as bandwidths and file sizes are given.
std::string bytes_text(double bytes);

}  // namespace hearth
