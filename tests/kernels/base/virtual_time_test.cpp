// Virtual time: which thread runs when, and what waiting costs.
#include "kernels/base/virtual_time.h"

#include <string>
#include <thread>

#include "kernels/base/mutex.h"
#include "kernels/base/signal.h"
#include "tests/support/catch.h"

namespace hearth {
namespace {

TEST_CASE("virtual time passes only when it is spent") {
  CHECK(VirtualTime::current() == nullptr);
  {
    VirtualTime time;
    CHECK(VirtualTime::current() == &time);
    const HostClock::time_point begin = HostClock::now();
    time.spend(2.5);
    time.wait_until(1);
    CHECK(time.now() == 2.5);
    CHECK(std::chrono::duration<double>(HostClock::now() - begin).count() == Approx(2.5));
    CHECK_THROWS_AS(VirtualTime(), std::logic_error);
  }
  CHECK(VirtualTime::current() == nullptr);
}

/// The actions, in order of time, of a worker that a signal wakes and of the engine beside it.
std::string story() {
  std::string told;  // written by one thread at a time
  VirtualTime time;
  Mutex mutex;
  Signal signal;
  int n_wanted = 0;
  std::jthread worker([&](const std::stop_token& stop) {
    for (int i = 1;; ++i) {
      MutexLock lock(mutex);
      if (!signal.wait(lock.for_wait(), stop, [&] { return n_wanted >= i; })) return;
      lock.unlock();
      time.spend(0.25);
      told += "w" + std::to_string(time.now()).substr(0, 4) + " ";
    }
  });
  time.wait_for_threads(2);
  for (int i = 0; i < 3; ++i) {
    {
      const MutexLock lock(mutex);
      ++n_wanted;
    }
    signal.notify_all();
    for (int part = 0; part < 4; ++part) {
      time.spend(0.1);
      told += "e" + std::to_string(time.now()).substr(0, 4) + " ";
    }
  }
  time.end();
  worker.request_stop();
  worker.join();
  return told;
}

TEST_CASE("the thread with the least time runs, whatever the system does") {
  // The worker is woken 20 us after each notice and is then busy for a quarter of a second.
  const std::string expected =
      "e0.10 e0.20 w0.25 e0.30 e0.40 e0.50 e0.60 w0.65 e0.70 e0.80 e0.90 e1.00 w1.05 e1.10 e1.20 ";
  for (int i = 0; i < 20; ++i) REQUIRE(story() == expected);
}

TEST_CASE("a deadlock of all threads is reported as a mistake") {
  VirtualTime time;
  const int channel = 0;
  CHECK_THROWS_AS(time.block(&channel), std::logic_error);
}

}  // namespace
}  // namespace hearth
