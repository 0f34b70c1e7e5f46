// How fast this machine reads memory: the bound that decoding is measured against.
#pragma once

namespace hearth {

/// Bytes per second that `n_threads` threads together read from DRAM, the best of several passes over a
/// buffer far larger than the caches. Takes a second or two. REQUIRES: n_threads >= 1. Throws std::bad_alloc,
/// std::system_error if the system grants no more threads.
double measure_read_bandwidth(int n_threads);

}  // namespace hearth
