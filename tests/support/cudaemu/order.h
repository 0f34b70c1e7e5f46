// Shows ThreadSanitizer the order of threads that CUDA guarantees, and nothing else.
//
// The emulator's own locks order more operations than a GPU does. For example, they would order two kernels
// that race on a GPU, or a copy and a host that overwrites the copied buffer. So ThreadSanitizer does not see
// these locks, and CUDA's guarantees are declared by releases and acquires. The emulator is never built with
// sanitizers; weak symbols tell whether the program is.
#pragma once

#include <mutex>

extern "C" {
[[gnu::weak]] void __tsan_acquire(void*);
[[gnu::weak]] void __tsan_release(void*);
[[gnu::weak]] void AnnotateIgnoreSyncBegin(const char*, int);
[[gnu::weak]] void AnnotateIgnoreSyncEnd(const char*, int);
[[gnu::weak]] void AnnotateIgnoreReadsBegin(const char*, int);
[[gnu::weak]] void AnnotateIgnoreReadsEnd(const char*, int);
[[gnu::weak]] void AnnotateIgnoreWritesBegin(const char*, int);
[[gnu::weak]] void AnnotateIgnoreWritesEnd(const char*, int);
}

namespace hearth::cudaemu {

/// Orders this thread's earlier work before other threads' work after acquire_order(place).
inline void release_order(void* place) {
  if (__tsan_release != nullptr) __tsan_release(place);
}
inline void acquire_order(void* place) {
  if (__tsan_acquire != nullptr) __tsan_acquire(place);
}

/// While an object of this class exists, ThreadSanitizer ignores this thread's actions.
class Unseen {
 public:
  Unseen() {
    if (AnnotateIgnoreSyncBegin == nullptr) return;
    AnnotateIgnoreSyncBegin(__FILE__, __LINE__);
    AnnotateIgnoreReadsBegin(__FILE__, __LINE__);
    AnnotateIgnoreWritesBegin(__FILE__, __LINE__);
  }
  ~Unseen() {
    if (AnnotateIgnoreSyncBegin == nullptr) return;
    AnnotateIgnoreWritesEnd(__FILE__, __LINE__);
    AnnotateIgnoreReadsEnd(__FILE__, __LINE__);
    AnnotateIgnoreSyncEnd(__FILE__, __LINE__);
  }
  Unseen(const Unseen&) = delete;
  Unseen& operator=(const Unseen&) = delete;
};

/// Holds a mutex without ThreadSanitizer seeing it.
class UnseenLock {
 public:
  explicit UnseenLock(std::mutex& mutex) : lock_(mutex) {}
  /// For waiting with a condition variable.
  operator std::unique_lock<std::mutex>&() { return lock_; }  // converts on purpose

 private:
  Unseen unseen_;
  std::unique_lock<std::mutex> lock_;
};

}  // namespace hearth::cudaemu
