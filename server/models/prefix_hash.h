// The SHA-256 of a file that grows from its begin, computed while it is written: when the last byte is there, little is left
// to be read.
//
// One thread of its own, which reads the file. advance() and finish() are called by the thread that writes.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <thread>

#include "kernels/base/sha256.h"

namespace hearth {

class PrefixHash {
 public:
  /// fd: open for reading as long as this lives.
  explicit PrefixHash(int fd);
  ~PrefixHash();
  PrefixHash(const PrefixHash&) = delete;
  PrefixHash& operator=(const PrefixHash&) = delete;

  /// Bytes [0, n) are there, and stay as they are. n never falls.
  void advance(uint64_t n);
  /// Bytes of them that have been read. Any thread.
  uint64_t hashed() const;
  /// Waits until [0, n) is read. Returns its hash. Throws PullError if the file cannot be read. Call it once, last. `wait`
  /// is called several times a second; it may throw to give up.
  template <typename Wait>
  Sha256 finish(uint64_t n, Wait wait) {
    advance(n);
    while (!is_done(n)) wait();
    return take();
  }

 private:
  void run(const std::stop_token& stop);
  bool is_done(uint64_t n);  // waits a little
  Sha256 take();

  const int fd_;
  mutable std::mutex mutex_;
  std::condition_variable_any changed_;
  uint64_t there_ = 0, hashed_ = 0;
  int error_ = 0;  // errno of reading
  Sha256Stream stream_;
  std::jthread thread_;  // last: it uses the others
};

}  // namespace hearth
