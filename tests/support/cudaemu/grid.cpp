#include "tests/support/cudaemu/grid.h"

#include <algorithm>
#include <condition_variable>
#include <cstdint>
#include <cstdlib>
#include <deque>
#include <latch>
#include <memory>
#include <mutex>
#include <thread>

#include "tests/support/cudaemu/block.h"
#include "tests/support/cudaemu/builtins.h"
#include "tests/support/cudaemu/order.h"
#include "tests/support/cudaemu/stats.h"

namespace hearth::cudaemu {
namespace {

/// OS threads that run blocks, beside the streams' own. They live as long as the process.
class BlockWorkers {
 public:
  /// Runs `work` on one of `n_workers` workers, which are started when first needed.
  void add(std::function<void()> work, int n_workers) {
    auto added = std::make_unique<std::function<void()>>(std::move(work));
    release_order(added.get());
    const UnseenLock lock(mutex_);
    queue_.push_back(std::move(added));
    for (; n_started_ < n_workers; ++n_started_) std::thread([this] { loop(); }).detach();
    wake_.notify_one();
  }

 private:
  using Work = std::unique_ptr<std::function<void()>>;

  void loop() {
    for (;;) {
      const Work work = next();
      acquire_order(work.get());
      (*work)();
    }
  }

  Work next() {
    UnseenLock lock(mutex_);
    wake_.wait(lock, [&] { return !queue_.empty(); });
    Work work = std::move(queue_.front());
    queue_.pop_front();
    return work;
  }

  std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<Work> queue_;
  int n_started_ = 0;
};

/// Runs every `step`th block, starting with `first`.
void run_blocks(const Launch& launch, const std::function<void()>& thread, unsigned first, unsigned step) {
  thread_local BlockRunner runner;
  // posix_memalign gives exactly the requested bytes, so that AddressSanitizer finds accesses just behind
  // them.
  constexpr size_t kAlignment = 128;
  void* shared = nullptr;
  if (posix_memalign(&shared, kAlignment, std::max<size_t>(launch.shared_bytes, 1)) != 0)
    die("no memory for shared memory of %zu bytes", launch.shared_bytes);
  runner.prepare(launch, thread, shared);
  const uint64_t n_blocks = uint64_t{launch.grid.x} * launch.grid.y * launch.grid.z;
  for (uint64_t b = first; b < n_blocks; b += step)
    runner.run({static_cast<unsigned>(b % launch.grid.x),
                static_cast<unsigned>(b / launch.grid.x % launch.grid.y),
                static_cast<unsigned>(b / launch.grid.x / launch.grid.y)});
  std::free(shared);
  count(&Stats::switches, runner.n_switches());
}

}  // namespace

void run_grid(const Launch& launch, const std::function<void()>& thread) {
  static BlockWorkers& workers = *new BlockWorkers;  // never destroyed, because its threads wait in it
  const int n = std::max(1, config().block_workers);
  std::latch others(n - 1);
  for (int i = 1; i < n; ++i)
    workers.add(
        [&, i] {
          run_blocks(launch, thread, static_cast<unsigned>(i), static_cast<unsigned>(n));
          release_order(&others);
          others.count_down();
        },
        n - 1);
  run_blocks(launch, thread, 0, static_cast<unsigned>(n));
  others.wait();
  acquire_order(&others);
  count(&Stats::launches);
}

}  // namespace hearth::cudaemu
