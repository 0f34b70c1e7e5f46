// The same work on several threads at the same time, and how long it took them.
#pragma once

#include <functional>
#include <vector>

namespace hearth {

/// What a time is counted by. kWall: what it took. kProcessors: what it would have taken if no thread had
/// ever waited for a processor that another program had: on a quiet machine the same.
enum class RunTime { kWall, kProcessors };

/// Seconds of body(0) to body(n_threads - 1), each on a thread of its own that begins when all are there; of
/// the slowest, at least a microsecond. cpus: the processors that the threads keep to; empty: where the
/// system puts them. body must not throw. REQUIRES: n_threads >= 1. Throws std::system_error if the system
/// grants no more threads; no body has run then.
double seconds_together(int n_threads, RunTime time, const std::vector<int>& cpus,
                        const std::function<void(int)>& body);

}  // namespace hearth
