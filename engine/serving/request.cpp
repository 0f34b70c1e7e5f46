// Names of the enumerators in request.h, for logs.
#include "engine/serving/request.h"

namespace hearth {

std::string_view refusal_name(Refusal refusal) {
  switch (refusal) {
    case Refusal::kQueueFull:
      return "queue full";
    case Refusal::kContextExceeded:
      return "context exceeded";
    case Refusal::kStopping:
      return "stopping";
  }
  return "unknown";
}

}  // namespace hearth
