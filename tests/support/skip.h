// Lets a test report that it did not run; Catch2 v2 knows only passed and failed.
#pragma once

#include <iostream>
#include <string>

namespace hearth::testing {

/// Prints the line that makes ctest report the running test case as skipped (SKIP_REGULAR_EXPRESSION in
/// tests/support/CMakeLists.txt). The caller returns at once. ctest never counts a skipped test as failed, so
/// call this before the first check. `reason` names the missing thing and how to get it.
inline void skip(const std::string& reason) { std::cout << "\nSKIPPED: " << reason << std::endl; }

}  // namespace hearth::testing
