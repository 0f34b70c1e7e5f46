// Includes Catch2's v3 headers if they exist, otherwise v2's single header. Every test includes this file
// instead of Catch2's own. Use Approx and Catch matchers unqualified.
//
// This file is precompiled, and a compiler cache may return a precompiled header from a tree in which this
// file had other comments. GCC then reads the file again in spite of "#pragma once", so it has a guard
// instead.
#ifndef HEARTH_TESTS_SUPPORT_CATCH_H
#define HEARTH_TESTS_SUPPORT_CATCH_H

#include "tests/support/source_dir.h"

#if __has_include(<catch2/catch_test_macros.hpp>)
#include <catch2/catch_approx.hpp>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/generators/catch_generators_range.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
using Catch::Approx;
using Catch::Matchers::ContainsSubstring;
#else
#include <catch2/catch.hpp>
inline Catch::Matchers::StdString::ContainsMatcher ContainsSubstring(const std::string& part) {
  return Catch::Matchers::Contains(part);
}
#endif

#endif  // HEARTH_TESTS_SUPPORT_CATCH_H
