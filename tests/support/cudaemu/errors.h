// How a call of the runtime's API begins and ends: the errors tests inject, and the thread's last error.
#pragma once

#include <driver_types.h>

#include <utility>

namespace hearth::cudaemu {

/// The error injected for this call of `api` (remembered as the thread's last), or success: go on.
cudaError_t begin_call(const char* api);
/// Remembers `error`, unless it is success, as the thread's last, and returns it.
cudaError_t finish_call(cudaError_t error);

cudaError_t peek_last_error();
void clear_last_error();

/// One function of the API: `body` returns its error.
template <class Body>
cudaError_t api_call(const char* api, Body&& body) {
  if (const cudaError_t injected = begin_call(api)) return injected;
  return finish_call(std::forward<Body>(body)());
}

}  // namespace hearth::cudaemu
