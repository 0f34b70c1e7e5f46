// Lets a test report that it did not run. Catch2 v2 knows only passed and failed.
#pragma once

#include <iostream>
#include <string>

namespace hearth::testing {

/// Prints the line that makes ctest report the running test case as skipped (SKIP_REGULAR_EXPRESSION in
/// tests/support/CMakeLists.txt). The caller returns at once. A skipped test is never a failed one, so call
/// this before the first check. `reason` says what is missing and where it comes from.
inline void skip(const std::string& reason) { std::cout << "\nSKIPPED: " << reason << std::endl; }

}  // namespace hearth::testing
