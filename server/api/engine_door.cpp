// The real engine behind the door that the API handlers use.
#include "server/api/served_model.h"

namespace hearth {

EngineDoor engine_door(Engine& engine) {
  return {
      .submit = [&engine](GenerationRequest request) { return engine.submit(std::move(request)); },
      .failed = [&engine] { return engine.status().failed; },
  };
}

}  // namespace hearth
