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

/// How long a run took.
struct RunSeconds {
  double wall = 0;  // elapsed time
  /// The time that the run would have taken if no thread had ever waited for a processor that another program
  /// used. Equals `wall` if no other program runs.
  double processors = 0;
};

/// Runs body(0) to body(n_threads - 1), each on its own thread; all bodies begin when all threads exist.
/// Returns the seconds that the slowest thread took, at least a microsecond. cpus: the processors that the
/// threads may run on; if empty, the system chooses. `body` must not throw. REQUIRES: n_threads >= 1. Throws
/// std::system_error if the system cannot create the threads; in this case no body has run.
RunSeconds seconds_together(int n_threads, const std::vector<int>& cpus,
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

/// The bytes per second of several passes over memory.
struct PassRates {
  double median = 0, slowest = 0, fastest = 0;
};

/// How fast threads together read memory. Both rates come from the same passes, by two clocks.
struct ReadSpeed {
  PassRates quiet;  // by processor time: the rates if no other program ran
  PassRates now;    // by wall-clock time
};

/// Reads these words a few times with n_threads threads, each of which reads its own part. cpus: the
/// processors that the threads may run on; if empty, the system chooses. REQUIRES: n_threads >= 1. Throws
/// std::system_error if the system cannot create the threads.
ReadSpeed measure_read(std::span<const uint64_t> words, int n_threads, const std::vector<int>& cpus = {});

/// A buffer far larger than the caches, with a function that measures how fast it is read. Only one thread
/// may use it at a time.
class ReadBandwidth {
 public:
  /// REQUIRES: n_threads >= 1. Throws std::bad_alloc.
  explicit ReadBandwidth(int n_threads);

  /// Returns how fast the threads together read from DRAM. Takes a fraction of a second. On a shared machine
  /// the rate changes from minute to minute, so measure it right before or after the work that is compared
  /// with it. Throws std::system_error if the system cannot create the threads.
  ReadSpeed measure() const;

 private:
  int n_threads_;
  std::vector<uint64_t> buffer_;
};

}  // namespace hearth
