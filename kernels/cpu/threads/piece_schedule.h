// Computes the size of the next piece of an operation whose pieces threads take one after the other.
//
// Cores may differ in speed: performance and efficiency cores, big and little ones, or a core that another
// program uses too. With equal pieces, all threads wait for the slowest core's last piece. So pieces are
// large at first and small at the end (guided self-scheduling: Polychronopoulos, Kuck 1987). Used by
// ThreadPool; pure.
#pragma once

#include <algorithm>
#include <cstdint>

namespace hearth {

/// A thread takes 1 / kPartOfShare of its equal share of the remaining work. A core is then never the last
/// one as long as its speed is at least the same fraction of the mean speed.
constexpr int64_t kPartOfShare = 2;

/// The units of the next piece: at least 1 and at most `most`. REQUIRES: left >= 1, n_threads >= 1, most >=
/// 1.
constexpr int64_t next_piece(int64_t left, int n_threads, int64_t most) {
  return std::clamp<int64_t>(left / (kPartOfShare * n_threads), 1, most);
}

}  // namespace hearth
