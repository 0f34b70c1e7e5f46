// See the header.
#include "server/http/message/body_memory.h"

namespace hearth {

bool BodyMemory::Share::grow_to(uint64_t body_bytes) {
  const uint64_t wanted = body_bytes > kFreeBytes ? body_bytes - kFreeBytes : 0;
  if (wanted <= bytes_) return true;
  const uint64_t more = wanted - bytes_;
  if (memory_.taken_.fetch_add(more) + more > memory_.most_) {
    memory_.taken_.fetch_sub(more);
    return false;
  }
  bytes_ = wanted;
  return true;
}

void BodyMemory::Share::release() {
  memory_.taken_.fetch_sub(bytes_);
  bytes_ = 0;
}

}  // namespace hearth
