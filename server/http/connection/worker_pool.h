// Threads that answer requests, created on demand up to a bound; work beyond that is refused, not queued.
//
// The poller hands over a connection once a request's head is complete. An idle thread costs a few KiB.
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

  /// work must not throw; it runs on up to max_threads threads at once.
  WorkerPool(size_t max_threads, Work work);
  /// Waits for running work to end.
  ~WorkerPool();

  /// Hands the connection to a thread. If all threads are busy and the bound is reached, returns false and
  /// leaves the connection with the caller.
  bool try_run(std::unique_ptr<Connection>& connection);

 private:
  void run();

  const size_t max_threads_;
  const Work work_;
  Mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::unique_ptr<Connection>> pending_ HEARTH_GUARDED_BY(mutex_);  // never more than idle threads
  size_t n_idle_ HEARTH_GUARDED_BY(mutex_) = 0;
  bool stopping_ HEARTH_GUARDED_BY(mutex_) = false;
  std::vector<std::thread> threads_ HEARTH_GUARDED_BY(mutex_);
};

}  // namespace hearth
