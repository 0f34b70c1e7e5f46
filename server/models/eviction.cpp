// See the header.
#include "server/models/eviction.h"

#include <algorithm>
#include <tuple>

namespace hearth {

std::optional<std::vector<size_t>> choose_leaving(std::span<const Resident> residents, uint64_t missing) {
  std::vector<size_t> order;
  for (size_t i = 0; i < residents.size(); ++i)
    if (residents[i].may_leave) order.push_back(i);
  std::ranges::stable_sort(
      order, {}, [&](size_t i) { return std::tuple(residents[i].is_busy, residents[i].last_used); });
  uint64_t freed = 0;
  size_t n = 0;
  while (n < order.size() && freed < missing) freed += residents[order[n++]].bytes;
  if (freed < missing) return std::nullopt;
  order.resize(n);
  // A large model that was taken last may make smaller ones unnecessary. The one used last stays first.
  for (size_t i = n; i-- > 0;) {
    const uint64_t bytes = residents[order[i]].bytes;
    if (freed - bytes < missing) continue;
    freed -= bytes;
    order.erase(order.begin() + static_cast<std::ptrdiff_t>(i));
  }
  return order;
}

}  // namespace hearth
