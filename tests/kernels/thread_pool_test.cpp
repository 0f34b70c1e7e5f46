// The thread pool: every piece runs once, results are visible to the caller, and no thread remains.
#include "kernels/cpu/threads/thread_pool.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

#include "kernels/cpu/threads/topology.h"
#include "tests/support/catch.h"
#include "tests/support/skip.h"

namespace hearth {
namespace {

/// Includes more threads than this machine has processors.
const std::vector<int> kPoolSizes = {1, 2, 3, 5, 16};

/// Calls body(piece, worker) once on every thread of the pool. The pieces wait for each other, so no thread
/// can run two of them.
template <class Body>
void run_on_all(ThreadPool& pool, Body&& body) {
  std::atomic<int> arrived{0};
  pool.for_each_piece(pool.n_threads(), 1, [&](int64_t piece, int64_t, int worker) {
    body(piece, worker);
    arrived.fetch_add(1);
    while (arrived.load() < pool.n_threads()) std::this_thread::yield();
  });
}

/// Waits until all threads except the caller sleep.
void await_sleep(const ThreadPool& pool) {
  while (pool.n_parked() < pool.n_threads() - 1) std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

}  // namespace

TEST_CASE("the caller sees what the pieces wrote once they are done, run after run", "[thread_pool]") {
  for (int n_threads : kPoolSizes) {
    ThreadPool pool(n_threads);
    REQUIRE(pool.n_threads() == n_threads);
    // Plain ints, because the pool must order these writes before the reads.
    std::vector<int> calls(8, 0);
    bool all_seen = true;
    for (int i = 1; i <= 2000; ++i) {
      pool.for_each_piece(8, 1, [&](int64_t begin, int64_t, int) { ++calls[static_cast<size_t>(begin)]; });
      for (int count : calls) all_seen &= count == i;
    }
    INFO(n_threads << " threads");
    CHECK(all_seen);
  }
}

TEST_CASE("every thread takes part, under a number of its own", "[thread_pool]") {
  for (int n_threads : kPoolSizes) {
    ThreadPool pool(n_threads);
    for (int i = 0; i < 20; ++i) {
      std::vector<int> worker_of(static_cast<size_t>(n_threads), -1);
      run_on_all(pool, [&](int64_t piece, int worker) { worker_of[static_cast<size_t>(piece)] = worker; });
      std::ranges::sort(worker_of);
      bool each_once = true;
      for (int worker = 0; worker < n_threads; ++worker) {
        each_once &= worker_of[static_cast<size_t>(worker)] == worker;
      }
      CHECK(each_once);
    }
  }
}

TEST_CASE("chunks cover a range once, whatever its size", "[thread_pool]") {
  for (int n_threads : kPoolSizes) {
    ThreadPool pool(n_threads);
    for (int64_t n : {0, 1, 2, 7, 100, 1001}) {
      for (int64_t grain : {1, 3, 100, 5000}) {
        std::vector<int> covered(static_cast<size_t>(n), 0);
        std::atomic<bool> in_bounds{true};
        pool.for_each_piece(n, grain, [&](int64_t begin, int64_t end, int worker) {
          if (begin < 0 || end > n || end <= begin || end - begin > grain || worker < 0 ||
              worker >= n_threads) {
            in_bounds = false;
            return;
          }
          for (int64_t i = begin; i < end; ++i) ++covered[static_cast<size_t>(i)];
        });
        INFO(n_threads << " threads, " << n << " by " << grain);
        CHECK(in_bounds);
        CHECK(std::ranges::count(covered, 1) == n);
      }
    }
  }
}

TEST_CASE("shrinking pieces cover a range once, whatever its size", "[thread_pool]") {
  for (int n_threads : kPoolSizes) {
    ThreadPool pool(n_threads);
    for (int64_t n : {0, 1, 2, 7, 100, 1001}) {
      for (int64_t most : {1, 3, 5000}) {
        std::vector<int> covered(static_cast<size_t>(n), 0);
        std::atomic<bool> in_bounds{true};
        pool.for_each_shrinking_piece(n, most, [&](int64_t begin, int64_t end, int worker) {
          const bool size_ok = end > begin && (end - begin <= most || n_threads == 1);
          if (begin < 0 || end > n || !size_ok || worker < 0 || worker >= n_threads) {
            in_bounds = false;
            return;
          }
          for (int64_t i = begin; i < end; ++i) ++covered[static_cast<size_t>(i)];
        });
        INFO(n_threads << " threads, " << n << " by at most " << most);
        CHECK(in_bounds);
        CHECK(std::ranges::count(covered, 1) == n);
      }
    }
  }
}

TEST_CASE("parts cover a range once, whatever its size", "[thread_pool]") {
  for (int n_threads : {1, 2, 3, 5, 16, 70}) {  // 70 is more than there are bits for parts
    ThreadPool pool(n_threads);
    for (int64_t n : {0, 1, 2, 7, 100, 1001}) {
      for (int run = 0; run < 20; ++run) {
        std::vector<int> covered(static_cast<size_t>(n), 0);
        std::atomic<bool> in_bounds{true};
        pool.for_each_part(n, [&](int64_t begin, int64_t end, int worker) {
          if (begin < 0 || end > n || end <= begin || end - begin > (n + n_threads - 1) / n_threads ||
              worker < 0 || worker >= n_threads) {
            in_bounds = false;
            return;
          }
          for (int64_t i = begin; i < end; ++i) ++covered[static_cast<size_t>(i)];
        });
        INFO(n_threads << " threads, " << n);
        CHECK(in_bounds);
        CHECK(std::ranges::count(covered, 1) == n);
      }
    }
  }
}

TEST_CASE("a thread that comes in time computes the part of its own number", "[thread_pool]") {
  for (int n_threads : kPoolSizes) {
    ThreadPool pool(n_threads);
    std::atomic<int> arrived{0}, own{0};
    pool.for_each_part(n_threads, [&](int64_t begin, int64_t, int worker) {
      own.fetch_add(begin == worker ? 1 : 0);
      arrived.fetch_add(1);  // no piece ends before all have begun
      while (arrived.load() < pool.n_threads()) std::this_thread::yield();
    });
    CHECK(own == n_threads);
  }
}

TEST_CASE("a range of one chunk stays on the calling thread", "[thread_pool]") {
  ThreadPool pool(3);
  std::thread::id ran_on;
  pool.for_each_piece(10, 10, [&](int64_t, int64_t, int) { ran_on = std::this_thread::get_id(); });
  CHECK(ran_on == std::this_thread::get_id());
}

TEST_CASE("threads that went to sleep are woken", "[thread_pool]") {
  ThreadPool pool(4);
  std::atomic<int> calls{0};
  for (int i = 0; i < 20; ++i) {
    await_sleep(pool);
    run_on_all(pool, [&](int64_t, int) { calls.fetch_add(1); });
  }
  CHECK(calls == 80);
}

TEST_CASE("threads that expect work go to sleep when none comes", "[thread_pool]") {
  ThreadPool pool(3);
  std::atomic<int> calls{0};
  for (int i = 0; i < 3; ++i) {
    await_sleep(pool);
    pool.expect_work();
    run_on_all(pool, [&](int64_t, int) { calls.fetch_add(1); });
    pool.expect_work();
  }
  await_sleep(pool);
  CHECK(calls == 9);
}

TEST_CASE("threads that expect work do not go to sleep before its time has passed", "[thread_pool]") {
  if (allowed_cpus().size() < 2) {
    testing::skip("one processor: threads never wait awake");
    return;
  }
  using Clock = std::chrono::steady_clock;
  const auto bound =
      std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(ThreadPool::kAwakeSeconds));
  ThreadPool pool(2, 0.0);
  // On a busy machine this thread may check too late; then it tries again.
  bool looked_late = false;
  for (int i = 0; i < 1000 && !looked_late; ++i) {
    const Clock::time_point told = Clock::now();
    pool.expect_work();
    run_on_all(pool, [](int64_t, int) {});
    for (;;) {
      const int n_parked = pool.n_parked();
      const Clock::duration since = Clock::now() - told;
      if (since >= bound) break;
      REQUIRE(n_parked == 0);
      looked_late = looked_late || since > bound / 2;  // long after threads that were not told sleep
    }
  }
  CHECK(looked_late);
}

TEST_CASE("threads without a processor or quota of their own go to sleep even if they expect work",
          "[thread_pool]") {
  const auto n_processors = static_cast<int>(allowed_cpus().size());
  struct Case {
    int n_threads;
    double quota;
  };
  for (const Case& c : {Case{n_processors + 1, 0.0}, Case{2, 1.5}, Case{2, 0.5}}) {
    INFO(c.n_threads << " threads, quota " << c.quota);
    ThreadPool pool(c.n_threads, c.quota);
    run_on_all(pool, [](int64_t, int) {});
    // If they waited awake, this would keep them from sleeping.
    using Clock = std::chrono::steady_clock;
    const Clock::time_point give_up = Clock::now() + std::chrono::minutes(1);
    const auto all_sleep = [&] { return pool.n_parked() == pool.n_threads() - 1; };
    for (; !all_sleep() && Clock::now() < give_up; std::this_thread::yield()) pool.expect_work();
    CHECK(all_sleep());
  }
}

TEST_CASE("a caller that waits longer than it spins is woken by the last worker", "[thread_pool]") {
  ThreadPool pool(3);
  std::atomic<int> finished{0};
  for (int i = 0; i < 5; ++i) {
    pool.for_each_piece(3, 1, [&](int64_t, int64_t, int worker) {
      // by the clock: longer than the caller spins; the result does not depend on it
      if (worker != 0) std::this_thread::sleep_for(std::chrono::milliseconds(2 * worker));
      finished.fetch_add(1);
    });
    CHECK(finished == 3 * (i + 1));
  }
}

TEST_CASE("pools can be made and destroyed, used or not", "[thread_pool]") {
  int calls = 0;
  for (int i = 0; i < 50; ++i) {
    ThreadPool pool(1 + i % 5);
    if (i % 3 != 0) pool.for_each_piece(1, 1, [&](int64_t, int64_t, int) { ++calls; });
    if (i % 3 == 2) pool.for_each_piece(100, 1, [](int64_t, int64_t, int) {});
  }
  CHECK(calls == 33);
}

TEST_CASE("a pool that fills the processors binds each of its threads to one", "[thread_pool]") {
  // Runs in a thread of its own, which may stay bound.
  std::thread([] {
    const size_t n_allowed = allowed_cpus().size();
    ThreadPool larger(static_cast<int>(n_allowed) + 1);
    CHECK_FALSE(larger.bind_threads());
    CHECK(allowed_cpus().size() == n_allowed);

    ThreadPool pool(static_cast<int>(n_allowed));
    if (!pool.bind_threads()) {
      testing::skip("this system refuses to bind threads");
      return;
    }
    std::vector<std::vector<int>> cpus(n_allowed);
    run_on_all(pool, [&](int64_t, int worker) { cpus[static_cast<size_t>(worker)] = allowed_cpus(); });
    std::vector<int> places;
    for (const std::vector<int>& of_worker : cpus) {
      REQUIRE(of_worker.size() == 1);
      places.push_back(of_worker[0]);
    }
    std::ranges::sort(places);
    CHECK(std::ranges::adjacent_find(places) == places.end());
  }).join();
}

TEST_CASE("a quota gets a thread for each whole CPU, and one for a remainder that is worth it",
          "[thread_pool]") {
  CHECK(threads_within(0.1) == 1);
  CHECK(threads_within(1.0) == 1);
  CHECK(threads_within(1.24) == 1);
  CHECK(threads_within(1.25) == 2);
  CHECK(threads_within(7.5) == 8);
  CHECK(threads_within(1e300) >= 1'000'000);  // the file may contain any number
}

TEST_CASE("a pool knows whether it has more threads than the quota has CPUs", "[thread_pool]") {
  CHECK_FALSE(ThreadPool(2, 0.0).exceeds_quota());  // no limit
  CHECK_FALSE(ThreadPool(2, 2.0).exceeds_quota());
  CHECK(ThreadPool(2, 1.5).exceeds_quota());
  CHECK(ThreadPool(1, 0.5).exceeds_quota());
}

TEST_CASE("a resting thread keeps no other waiting, and takes part again afterward", "[thread_pool]") {
  ThreadPool pool(3, 1.25);
  using Clock = std::chrono::steady_clock;
  for (int i = 0; i < 3; ++i) {
    // Longer than a turn, so that the thread must rest before the next operation.
    run_on_all(pool, [](int64_t, int) {
      const Clock::time_point end = Clock::now() + std::chrono::milliseconds(6);
      while (Clock::now() < end) {
      }
    });
    // The caller computes all pieces that need no second thread, whatever the other thread does.
    std::atomic<int> pieces{0};
    pool.for_each_piece(100, 1, [&](int64_t, int64_t, int) { pieces.fetch_add(1); });
    CHECK(pieces == 100);
  }
}

TEST_CASE("the default is at least one thread and at most the processors allowed", "[thread_pool]") {
  CHECK(default_thread_count() >= 1);
  CHECK(default_thread_count() <= static_cast<int>(allowed_cpus().size()));
}

}  // namespace hearth
