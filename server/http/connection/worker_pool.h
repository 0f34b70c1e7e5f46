// Threads that answer requests. They are created on demand, up to a limit; more work is refused, not queued.
//
// The poller passes a connection to the pool when a request's head is complete. An idle thread uses a few
// KiB.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "kernels/base/mutex.h"
#include "server/http/connection/connection.h"

namespace hearth {

class WorkerPool {
 public:
  using Work = std::function<void(std::unique_ptr<Connection>)>;

  /// work: runs on up to max_threads threads at once; must not throw.
  WorkerPool(size_t max_threads, Work work);
  /// Waits until running work has ended.
  ~WorkerPool();

  /// Passes the connection to a thread. If max_threads threads are busy, returns false and leaves the
  /// connection with the caller.
  bool try_run(std::unique_ptr<Connection>& connection);

 private:
  void run();

  const size_t max_threads_;
  const Work work_;
  Mutex mutex_;
  std::condition_variable changed_;
  // At most as many as idle threads.
  std::deque<std::unique_ptr<Connection>> pending_ HEARTH_GUARDED_BY(mutex_);
  size_t n_idle_ HEARTH_GUARDED_BY(mutex_) = 0;
  bool stopping_ HEARTH_GUARDED_BY(mutex_) = false;
  std::vector<std::thread> threads_ HEARTH_GUARDED_BY(mutex_);
};

}  // namespace hearth
