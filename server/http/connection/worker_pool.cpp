// See the header.
#include "server/http/connection/worker_pool.h"

#include <system_error>

namespace hearth {

WorkerPool::WorkerPool(size_t max_threads, Work work) : max_threads_(max_threads), work_(std::move(work)) {}

WorkerPool::~WorkerPool() {
  {
    const MutexLock lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

bool WorkerPool::try_run(std::unique_ptr<Connection>& connection) {
  const MutexLock lock(mutex_);
  if (pending_.size() >= n_idle_) {
    if (threads_.size() >= max_threads_) return false;
    try {
      threads_.emplace_back([this] { run(); });
    } catch (const std::system_error&) {
      return false;  // the system cannot create more threads, which has the effect of max_threads
    }
    ++n_idle_;  // counted here, because the next call must not treat this thread as free
  }
  pending_.push_back(std::move(connection));
  changed_.notify_one();
  return true;
}

void WorkerPool::run() {
  MutexLock lock(mutex_);
  for (;;) {
    changed_.wait(lock.for_wait(),
                  [this]() HEARTH_REQUIRES(mutex_) { return stopping_ || !pending_.empty(); });
    if (pending_.empty()) return;
    std::unique_ptr<Connection> connection = std::move(pending_.front());
    pending_.pop_front();
    --n_idle_;
    lock.unlock();
    work_(std::move(connection));
    lock.lock();
    ++n_idle_;
  }
}

}  // namespace hearth
