// Computes the SHA-256 of a file while the file is written from its beginning, so that little is left to read
// when the last byte arrives.
//
// Its own thread reads the file. The writing thread calls advance() and finish().
#pragma once

#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <thread>

#include "kernels/base/sha256.h"

namespace hearth {

class PrefixHash {
 public:
  /// fd: must stay open for reading while this exists.
  explicit PrefixHash(int fd);
  ~PrefixHash();
  PrefixHash(const PrefixHash&) = delete;
  PrefixHash& operator=(const PrefixHash&) = delete;

  /// Tells that bytes [0, n) are present and final. n must not decrease.
  void advance(uint64_t n);
  /// Number of bytes hashed so far. Any thread.
  uint64_t hashed() const;
  /// Waits until [0, n) is hashed and returns the hash. Calls `wait` several times a second; it may throw to
  /// give up. Throws PullError if the file cannot be read. Call it once, last.
  template <typename Wait>
  Sha256 finish(uint64_t n, Wait wait) {
    advance(n);
    while (!is_done(n)) wait();
    return take();
  }

 private:
  void run(const std::stop_token& stop);
  bool is_done(uint64_t n);  // waits briefly
  Sha256 take();

  const int fd_;
  mutable std::mutex mutex_;
  std::condition_variable_any changed_;
  uint64_t there_ = 0, hashed_ = 0;
  int error_ = 0;  // errno of a failed read
  Sha256Stream stream_;
  std::jthread thread_;  // last member: uses the others
};

}  // namespace hearth
