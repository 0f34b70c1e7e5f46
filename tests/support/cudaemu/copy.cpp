#include "tests/support/cudaemu/copy.h"

#include <cstring>
#include <utility>
#include <vector>

#include "tests/support/cudaemu/memory.h"
#include "tests/support/cudaemu/simulation.h"
#include "tests/support/cudaemu/stats.h"
#include "tests/support/cudaemu/stream.h"

namespace hearth::cudaemu {
namespace {

void run(const Copy& copy) {
  for (size_t row = 0; row < copy.height; ++row)
    std::memcpy(copy.to + row * copy.to_pitch, copy.from + row * copy.from_pitch, copy.width);
}

WorkKind kind_of(bool from_device, bool to_device) {
  if (from_device) return to_device ? WorkKind::kDeviceToDevice : WorkKind::kDeviceToHost;
  return to_device ? WorkKind::kHostToDevice : WorkKind::kHostToHost;
}

bool is_as_said(cudaMemcpyKind said, WorkKind is) {
  switch (said) {
    case cudaMemcpyHostToHost:
      return is == WorkKind::kHostToHost;
    case cudaMemcpyHostToDevice:
      return is == WorkKind::kHostToDevice;
    case cudaMemcpyDeviceToHost:
      return is == WorkKind::kDeviceToHost;
    case cudaMemcpyDeviceToDevice:
      return is == WorkKind::kDeviceToDevice;
    default:
      return said == cudaMemcpyDefault;
  }
}

/// First copies the rows of pageable memory to a buffer that the driver owns.
Operation staged(Operation operation, const Copy& copy) {
  std::vector<char> rows(copy.width * copy.height);
  run({rows.data(), copy.width, copy.from, copy.from_pitch, copy.width, copy.height});
  operation.run = [copy, rows = std::move(rows)] {
    run({copy.to, copy.to_pitch, rows.data(), copy.width, copy.width, copy.height});
  };
  return operation;
}

}  // namespace

cudaError_t copy_async(const Copy& copy, cudaMemcpyKind kind, cudaStream_t handle) {
  if (copy.width == 0 || copy.height == 0) return cudaSuccess;
  if (copy.height > 1 && (copy.width > copy.to_pitch || copy.width > copy.from_pitch))
    return cudaErrorInvalidPitchValue;
  const Place target = place_of(copy.to, copy.to_pitch * (copy.height - 1) + copy.width);
  const Place source = place_of(copy.from, copy.from_pitch * (copy.height - 1) + copy.width);
  if (target == Place::kOverrun || source == Place::kOverrun) return cudaErrorInvalidValue;
  Operation operation{kind_of(source == Place::kDevice, target == Place::kDevice), copy.width * copy.height,
                      nullptr, [copy] { run(copy); }};
  if (!is_as_said(kind, operation.kind)) return cudaErrorInvalidMemcpyDirection;
  Stream* stream = find_stream(handle);
  if (stream == nullptr) return cudaErrorInvalidResourceHandle;

  if (operation.kind == WorkKind::kHostToDevice) count(&Stats::h2d_bytes, operation.n_bytes);
  if (operation.kind == WorkKind::kDeviceToHost) count(&Stats::d2h_bytes, operation.n_bytes);
  const bool is_pageable = target == Place::kUnknown || source == Place::kUnknown;
  if (is_pageable) count(&Stats::pageable_async);
  if (!is_pageable || stream->capture != nullptr) return enqueue(handle, std::move(operation));
  if (operation.kind == WorkKind::kHostToDevice) {
    // a simulated copy is executed at once, if at all
    if (!is_simulated()) operation = staged(std::move(operation), copy);
    operation.pageable = true;
    return enqueue(handle, std::move(operation));
  }
  const cudaError_t error = enqueue(handle, std::move(operation));
  if (error == cudaSuccess) stream->wait();
  return error;
}

cudaError_t fill_async(void* to, int value, size_t n_bytes, cudaStream_t handle) {
  if (n_bytes == 0) return cudaSuccess;
  if (place_of(to, n_bytes) != Place::kDevice) return cudaErrorInvalidValue;
  return enqueue(handle, {WorkKind::kFill, n_bytes, nullptr, [=] { std::memset(to, value, n_bytes); }});
}

}  // namespace hearth::cudaemu
