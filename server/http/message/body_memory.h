// Bounds the memory that the bodies of all requests take together: each is bounded, but hundreds may arrive at once.
//
// A body's share grows while it arrives and ends when its request has been read. Small bodies are never refused, so whoever fills the
// memory with large ones that never end keeps out large ones only. Thread-safe.
#pragma once

#include <atomic>
#include <cstdint>

namespace hearth {

class BodyMemory {
 public:
  /// What each body may take besides: more than most requests have.
  static constexpr uint64_t kFreeBytes = 64 * 1024;

  explicit BodyMemory(uint64_t most_bytes) : most_(most_bytes) {}

  /// Of one body; used by one thread.
  class Share {
   public:
    explicit Share(BodyMemory& memory) : memory_(memory) {}
    ~Share() { release(); }
    Share(const Share&) = delete;
    Share& operator=(const Share&) = delete;

    /// Makes the share that of a body of so many bytes. False, and the share stays as it was: there is no room for it now.
    bool grow_to(uint64_t body_bytes);
    void release();

   private:
    BodyMemory& memory_;
    uint64_t bytes_ = 0;
  };

 private:
  const uint64_t most_;
  std::atomic<uint64_t> taken_{0};
};

}  // namespace hearth
