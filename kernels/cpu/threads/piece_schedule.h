// Computes the size of the next piece of an operation that threads divide by taking one piece after another.
//
// Cores may differ in speed: there are performance and efficiency cores, big and little cores, and cores that
// another program also uses. With equal pieces, all threads would wait for the slowest core's last piece. So
// pieces are large at first and small at the end (guided self-scheduling: Polychronopoulos, Kuck 1987). Used
// by ThreadPool. The function has no state.
#pragma once

#include <algorithm>
#include <cstdint>

namespace hearth {

/// A thread takes 1 / kPartOfShare of its equal share of the remaining work. Then a core is never the last to
/// finish if its speed is at least 1 / kPartOfShare of the mean speed.
constexpr int64_t kPartOfShare = 2;

/// Returns the number of units in the next piece: at least 1 and at most `most`. REQUIRES: left >= 1,
/// n_threads >= 1, most >= 1.
constexpr int64_t next_piece(int64_t left, int n_threads, int64_t most) {
  return std::clamp<int64_t>(left / (kPartOfShare * n_threads), 1, most);
}

}  // namespace hearth
