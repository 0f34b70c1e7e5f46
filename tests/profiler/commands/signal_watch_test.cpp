// A signal is noted while it is watched for, and the next does what it did before.
#include "profiler/commands/signal_watch.h"

#include <atomic>
#include <csignal>

#include "tests/support/catch.h"

namespace hearth::test {
namespace {

std::atomic<int> n_before{0};

/// Counts signals of both kinds that nobody watches, as long as it lives.
struct Counted {
  Counted() : old_int(std::signal(SIGINT, count)), old_term(std::signal(SIGTERM, count)) { n_before = 0; }
  ~Counted() {
    std::signal(SIGINT, old_int);
    std::signal(SIGTERM, old_term);
  }
  static void count(int) { ++n_before; }
  void (*old_int)(int);
  void (*old_term)(int);
};

}  // namespace

TEST_CASE("a signal watch: the first signal is noted, the second does what it did before") {
  const Counted counted;
  for (const int first : {SIGINT, SIGTERM}) {
    for (const int second : {SIGINT, SIGTERM}) {
      n_before = 0;
      const SignalWatch watch;
      CHECK_FALSE(watch.stopped());
      std::raise(first);
      CHECK(watch.stopped());
      CHECK(watch.signal() == first);
      CHECK(watch.exit_code() == 128 + first);
      CHECK(n_before == 0);
      std::raise(second);
      CHECK(n_before == 1);
      CHECK(watch.signal() == first);
    }
  }
}

TEST_CASE("a signal watch that is over leaves signals as they were, and the next begins anew") {
  const Counted counted;
  {
    const SignalWatch watch;
    std::raise(SIGTERM);
  }
  { const SignalWatch untouched; }
  std::raise(SIGINT);
  std::raise(SIGTERM);
  CHECK(n_before == 2);
  const SignalWatch watch;
  CHECK_FALSE(watch.stopped());
}

}  // namespace hearth::test
