// See the header.
#include "engine/placement/machine_profile.h"

#include <algorithm>

namespace hearth {

double MachineProfile::ram_read_bytes_per_s(int n_threads) const {
  ReadRate before;  // no threads read nothing
  for (const ReadRate& rate : host.ram_read) {
    if (n_threads <= rate.n_threads) {
      const double way =
          static_cast<double>(n_threads - before.n_threads) / (rate.n_threads - before.n_threads);
      return before.bytes_per_s + way * (rate.bytes_per_s - before.bytes_per_s);
    }
    before = rate;
  }
  return before.bytes_per_s;
}

double MachineProfile::ram_read_bytes_per_s() const {
  double best = 0;
  for (const ReadRate& rate : host.ram_read) best = std::max(best, rate.bytes_per_s);
  return best;
}

}  // namespace hearth
