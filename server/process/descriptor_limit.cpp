// See the header.
#include "server/process/descriptor_limit.h"

#include <sys/resource.h>

#include <algorithm>
#include <limits>

namespace hearth {

size_t raise_descriptor_limit(size_t wanted) {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return std::numeric_limits<size_t>::max();
  if (limit.rlim_cur >= wanted) return limit.rlim_cur;
  const rlimit raised{std::min<rlim_t>(wanted, limit.rlim_max), limit.rlim_max};
  return ::setrlimit(RLIMIT_NOFILE, &raised) == 0 ? raised.rlim_cur : limit.rlim_cur;
}

}  // namespace hearth
