// Helpers for CUDA API functions that wait for the device. Such functions are forbidden while a stream
// captures.
#pragma once

#include <utility>

#include "tests/support/cudaemu/errors.h"
#include "tests/support/cudaemu/graph.h"

namespace hearth::cudaemu {

/// Runs a call that is forbidden while a stream captures. `body`: see api_call.
template <class Body>
cudaError_t api_call_unless_capturing(const char* api, Body&& body) {
  return api_call(api, [&] {
    const cudaError_t error = forbid_while_capturing();
    return error != cudaSuccess ? error : std::forward<Body>(body)();
  });
}

/// Like api_call_unless_capturing(), but also returns the device's error if the work that was waited for has
/// broken the device.
template <class Body>
cudaError_t api_wait(const char* api, Body&& body) {
  return api_call_unless_capturing(api, [&] {
    const cudaError_t error = std::forward<Body>(body)();
    return error == cudaSuccess ? device_error() : error;
  });
}

}  // namespace hearth::cudaemu
