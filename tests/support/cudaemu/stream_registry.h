// Creates and destroys streams, for the API.
#pragma once

#include <driver_types.h>

namespace hearth::cudaemu {

cudaStream_t create_stream(bool blocking, int priority);
/// Waits for the stream's work, then destroys the stream. Returns an error if the handle is unknown.
cudaError_t destroy_stream(cudaStream_t handle);

}  // namespace hearth::cudaemu
