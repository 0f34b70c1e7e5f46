// The frame of the functions of CUDA's API that emulated CUDA has.
#pragma once

#include <utility>

#include "tests/support/cudaemu/errors.h"
#include "tests/support/cudaemu/graph.h"

namespace hearth::cudaemu {

/// A call that is forbidden while a stream captures.
template <class Body>
cudaError_t api_call_unless_capturing(const char* api, Body&& body) {
  return api_call(api, [&] {
    return is_capturing_anywhere() ? cudaErrorStreamCaptureUnsupported : std::forward<Body>(body)();
  });
}

/// Waits for all streams.
inline void wait_for_device() {
  for (Stream* stream : all_streams()) stream->wait();
  find_stream(nullptr)->wait();
}

}  // namespace hearth::cudaemu
