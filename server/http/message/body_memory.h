// Limits the total memory of all request bodies. The size of each body is limited, but hundreds may arrive at
// once.
//
// The counted memory of a body grows while the body arrives, and is released when the request has been read.
// Small bodies are never refused: if large unfinished bodies use up the limit, only other large bodies are
// refused. When a large body has arrived, it waits for one of a few LargeBodyPlaces before it is parsed.
// Thread-safe.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <semaphore>

namespace hearth {

class BodyMemory {
 public:
  /// This many bytes of each body are not counted. Most bodies are smaller than this.
  static constexpr uint64_t kFreeBytes = 64 * 1024;

  explicit BodyMemory(uint64_t most_bytes) : most_(most_bytes) {}

  /// The memory of one body. Used by one thread.
  class Share {
   public:
    explicit Share(BodyMemory& memory) : memory_(memory) {}
    ~Share() { release(); }
    Share(const Share&) = delete;
    Share& operator=(const Share&) = delete;

    /// Grows the share to a body of `body_bytes`. If this exceeds the limit, changes nothing and returns
    /// false.
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

/// Limits how many large bodies are parsed at once, because parsed JSON uses up to 16 times the bytes of its
/// text.
class LargeBodyPlaces {
 public:
  static constexpr size_t kLargeBytes = 1 << 20;  // bodies of at least this size need a place
  static constexpr int kPlaces = 4;

  /// The permission to parse one body. The constructor waits until there is one.
  class Place {
   public:
    explicit Place(LargeBodyPlaces& places) : places_(places) { places_.free_.acquire(); }
    ~Place() { places_.free_.release(); }
    Place(const Place&) = delete;
    Place& operator=(const Place&) = delete;

   private:
    LargeBodyPlaces& places_;
  };

 private:
  std::counting_semaphore<kPlaces> free_{kPlaces};
};

}  // namespace hearth
