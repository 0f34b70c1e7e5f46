// Making and ending streams, for the API.
#pragma once

#include <driver_types.h>

namespace hearth::cudaemu {

cudaStream_t create_stream(bool blocking, int priority);
/// After its work. An unknown handle is an error.
cudaError_t destroy_stream(cudaStream_t handle);

}  // namespace hearth::cudaemu
