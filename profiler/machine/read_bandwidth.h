// Measures how fast this machine reads memory, which bounds the speed of decoding. Also has two functions for
// other measurements of memory: read_buffer() returns a buffer size that fits in memory, and
// seconds_together() starts threads at the same time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

namespace hearth {

/// The clock of a measurement. kWall: elapsed time. kProcessors: the time that the measurement would have
/// taken if no thread had ever waited for a processor that another program used. The two are equal if no
/// other program runs.
enum class RunTime { kWall, kProcessors };

/// Runs body(0) to body(n_threads - 1), each on its own thread; all bodies begin when all threads exist.
/// Returns the seconds that the slowest thread took, at least a microsecond. cpus: the processors that the
/// threads may run on; if empty, the system chooses. `body` must not throw. REQUIRES: n_threads >= 1. Throws
/// std::system_error if the system cannot create the threads; in this case no body has run.
double seconds_together(int n_threads, RunTime time, const std::vector<int>& cpus,
                        const std::function<void(int)>& body);

/// The size of a buffer to read so that memory is measured instead of caches: several times the last-level
/// cache, or less if memory is short.
struct ReadBuffer {
  size_t bytes = 0;
  /// True if memory is so short that the caches hold more than half of the buffer. Figures may then include
  /// reads from caches.
  bool is_short = false;
};
ReadBuffer read_buffer();

/// Reads these words a few times with n_threads threads, each of which reads its own part. Returns the bytes
/// per second of all threads together in the fastest pass. cpus: the processors that the threads may run on;
/// if empty, the system chooses. REQUIRES: n_threads >= 1. Throws std::system_error if the system cannot
/// create the threads.
double measure_read(std::span<const uint64_t> words, int n_threads, RunTime time,
                    const std::vector<int>& cpus = {});

/// A buffer far larger than the caches, with a function that measures how fast it is read. Only one thread
/// may use it at a time.
class ReadBandwidth {
 public:
  /// REQUIRES: n_threads >= 1. Throws std::bad_alloc.
  explicit ReadBandwidth(int n_threads);

  /// Returns the bytes per second at which the threads together currently read from DRAM, the best of a few
  /// passes, which take a fraction of a second. On a shared machine the rate changes from minute to minute,
  /// so measure it right before or after the work that is compared with it. Throws std::system_error if the
  /// system cannot create the threads.
  double measure() const;

 private:
  int n_threads_;
  std::vector<uint64_t> buffer_;
};

}  // namespace hearth
