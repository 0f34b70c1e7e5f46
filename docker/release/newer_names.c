// Definitions of the names that Debian 12's static libstdc++ uses from C libraries newer than 2.31. Linked
// into the programs of docker/release/portable.sh only.
#include <stdint.h>
#include <stdlib.h>
#include <sys/random.h>

#define HIDDEN __attribute__((visibility("hidden")))

// C library 2.32: nonzero while the process has one thread, so that counters need no atomic operation. 0 is
// correct for any number of threads.
HIDDEN char __libc_single_threaded = 0;

// C library 2.36: a random number. std::random_device calls it.
HIDDEN uint32_t arc4random(void) {
  uint32_t number;
  if (getrandom(&number, sizeof number, 0) != sizeof number) abort();
  return number;
}
