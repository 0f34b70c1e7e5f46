// Selects the cases that tests of whole models run where all of them take too long: in builds with a
// sanitizer, which slows them down three to thirty times, and in CI on the emulated GPU. A sanitizer finds
// faults in code that runs, and every model and instruction set runs nearly the same code. Other builds check
// the numbers.
#pragma once

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <initializer_list>
#include <string>
#include <vector>

#include "kernels/cpu/isa/isa.h"

namespace hearth::testing {

/// Runs every kStride-th of similar cases: 1 without a sanitizer, 3 with AddressSanitizer, 9 with
/// ThreadSanitizer.
inline constexpr size_t kStride = HEARTH_TEST_STRIDE;

/// Like kStride, for whole models on the emulated GPU: at least 3 where HEARTH_SKIP_NIGHTLY is set, as in CI.
inline size_t device_stride() {
  return std::getenv("HEARTH_SKIP_NIGHTLY") != nullptr ? std::max<size_t>(kStride, 3) : kStride;
}

/// Returns the instruction sets for tests of whole models: all that this processor has, or with a sanitizer
/// only the best. (The longest kernel tests use this function too. Other kernel tests run on all instruction
/// sets in every build.)
inline std::vector<Isa> model_isas() {
  std::vector<Isa> isas = supported_isas();
  if (kStride > 1) isas.resize(1);
  return isas;
}

/// Returns the first case of an array, and every kStride-th case after it.
template <class T, size_t n>
std::vector<std::reference_wrapper<const T>> some_cases(const T (&cases)[n]) {
  std::vector<std::reference_wrapper<const T>> chosen;
  for (size_t i = 0; i < n; i += kStride) chosen.emplace_back(cases[i]);
  return chosen;
}

/// Returns the first of these names, and every n-th name after it.
inline std::vector<std::string> every_nth(size_t n, std::initializer_list<const char*> names) {
  std::vector<std::string> chosen;
  for (size_t i = 0; i < names.size(); i += n) chosen.emplace_back(names.begin()[i]);
  return chosen;
}

/// Returns the first of these names of models or modes for the emulated GPU, and every device_stride()-th
/// name after it.
inline std::vector<std::string> some_of(std::initializer_list<const char*> names) {
  return every_nth(device_stride(), names);
}

}  // namespace hearth::testing
