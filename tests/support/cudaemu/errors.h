// Begins and ends calls of the runtime's API: injects errors, and tracks a lost device and the thread's last
// error.
#pragma once

#include <driver_types.h>

#include <utility>

namespace hearth::cudaemu {

/// The error that fail_next has planned for this use of `name`, or cudaSuccess.
cudaError_t take_fault(const char* name);

/// Marks the device as lost by this error, unless it was lost before.
void break_device(cudaError_t error);
/// The error for a missing or too old driver, or for a missing device; otherwise cudaSuccess.
cudaError_t machine_error();
/// Like machine_error(), but also returns the error that broke the device.
cudaError_t device_error();

/// Stores `error` as the thread's last error, unless it is cudaSuccess, and returns it.
cudaError_t finish_call(cudaError_t error);
/// The thread's last error. If the device was lost, that error comes first and cannot be cleared.
cudaError_t peek_last_error();
void clear_last_error();

/// Runs a function of the API that works even on a lost device. `body` returns its error.
template <class Body>
cudaError_t api_query(const char* api, Body&& body) {
  const cudaError_t fault = take_fault(api);
  return finish_call(fault != cudaSuccess ? fault : std::forward<Body>(body)());
}

/// Runs a function of the API, unless the device is lost.
template <class Body>
cudaError_t api_call(const char* api, Body&& body) {
  if (const cudaError_t error = device_error()) return finish_call(error);
  return api_query(api, std::forward<Body>(body));
}

/// Runs a function of the API that releases a resource. It runs even on a lost device, but then returns the
/// device's error.
template <class Body>
cudaError_t api_release(const char* api, Body&& body) {
  return api_query(api, [&] {
    const cudaError_t lost = device_error(), error = std::forward<Body>(body)();
    return lost != cudaSuccess ? lost : error;
  });
}

}  // namespace hearth::cudaemu
