// A mutex with annotations that let clang check its use at compile time. libstdc++'s std::mutex has no
// annotations.
//
// A class declares for each member which mutex guards it, and for each private function which mutex its
// caller must hold:
//
//   Mutex mutex_;
//   std::deque<Event> events_ HEARTH_GUARDED_BY(mutex_);
//   void drop_old() HEARTH_REQUIRES(mutex_);
//
// Builds with clang (the presets asan and tsan, and clang-tidy) then refuse code that touches events_ without
// a MutexLock on mutex_ (-Wthread-safety). g++ sees a plain mutex. The annotations are macros because g++
// would warn about the attributes.
#pragma once

#include <mutex>

#if defined(__clang__)
#define HEARTH_THREAD_ATTRIBUTE(x) __attribute__((x))
#else
#define HEARTH_THREAD_ATTRIBUTE(x)
#endif
/// Marks a member that may be read and written only while the mutex is held.
#define HEARTH_GUARDED_BY(mutex) HEARTH_THREAD_ATTRIBUTE(guarded_by(mutex))
/// Marks a function or lambda that may be called only while the mutex is held.
#define HEARTH_REQUIRES(mutex) HEARTH_THREAD_ATTRIBUTE(exclusive_locks_required(mutex))

namespace hearth {

/// std::mutex with clang's annotations.
class HEARTH_THREAD_ATTRIBUTE(capability("mutex")) Mutex {
 public:
  void lock() HEARTH_THREAD_ATTRIBUTE(acquire_capability()) { mutex_.lock(); }
  void unlock() HEARTH_THREAD_ATTRIBUTE(release_capability()) { mutex_.unlock(); }

 private:
  friend class MutexLock;
  std::mutex mutex_;
};

/// Holds a mutex until the end of the block. unlock() and lock() can release it for a while.
class HEARTH_THREAD_ATTRIBUTE(scoped_lockable) MutexLock {
 public:
  explicit MutexLock(Mutex& mutex) HEARTH_THREAD_ATTRIBUTE(acquire_capability(mutex)) : lock_(mutex.mutex_) {}
  ~MutexLock() HEARTH_THREAD_ATTRIBUTE(release_capability()) = default;
  MutexLock(const MutexLock&) = delete;
  MutexLock& operator=(const MutexLock&) = delete;

  void lock() HEARTH_THREAD_ATTRIBUTE(acquire_capability()) { lock_.lock(); }
  void unlock() HEARTH_THREAD_ATTRIBUTE(release_capability()) { lock_.unlock(); }

  /// Returns the lock to pass to wait() of a condition variable. When wait() returns, the mutex is held
  /// again. A lambda that tests the condition needs the annotation HEARTH_REQUIRES(mutex_).
  std::unique_lock<std::mutex>& for_wait() { return lock_; }

 private:
  std::unique_lock<std::mutex> lock_;
};

}  // namespace hearth
