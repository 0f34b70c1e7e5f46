// What tests of whole models leave out in builds with a sanitizer, which slows them down three to thirty
// times: it looks for faults in what runs, and much the same code runs for every model and instruction set.
// Digits are for the others.
#pragma once

#include <functional>
#include <initializer_list>
#include <string>
#include <vector>

#include "kernels/cpu/isa.h"

namespace hearth::testing {

/// Of cases that go much the same ways, each so manyth is run: 1, with AddressSanitizer 3, with
/// ThreadSanitizer 9.
inline constexpr size_t kStride = HEARTH_TEST_STRIDE;

/// The instruction sets that whole models run on: all that this processor has, sanitized the best of them.
/// (Of kernels' own tests the longest use this too; the others run on all in every build.)
inline std::vector<Isa> model_isas() {
  std::vector<Isa> isas = supported_isas();
  if (kStride > 1) isas.resize(1);
  return isas;
}

/// The first case of an array, and each kStride-th from there.
template <class T, size_t n>
std::vector<std::reference_wrapper<const T>> some_cases(const T (&cases)[n]) {
  std::vector<std::reference_wrapper<const T>> chosen;
  for (size_t i = 0; i < n; i += kStride) chosen.emplace_back(cases[i]);
  return chosen;
}

/// The first name, and each kStride-th from there.
inline std::vector<std::string> some_of(std::initializer_list<const char*> names) {
  std::vector<std::string> chosen;
  for (size_t i = 0; i < names.size(); i += kStride) chosen.emplace_back(names.begin()[i]);
  return chosen;
}

}  // namespace hearth::testing
