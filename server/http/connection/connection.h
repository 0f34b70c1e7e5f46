// One client connection: its socket, the bytes received but not yet used, and its deadlines.
//
// It belongs to one thread at a time: the poller while it waits for a request's head, a worker while the
// request is answered. Every wait is bounded, so that no client can hold a thread forever.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

#include "kernels/base/unique_fd.h"

namespace hearth {

using SteadyTime = std::chrono::steady_clock::time_point;

/// Limits of a request's head (request line and headers), far above what browsers and proxies send.
inline constexpr size_t kMaxHeadBytes = 32 * 1024;
inline constexpr size_t kMaxLineBytes = 8 * 1024;
inline constexpr size_t kMaxHeaderLines = 128;
/// A client that takes no bytes of its answer for this long counts as gone. This is half of the 60 s after
/// which proxies give up.
inline constexpr std::chrono::milliseconds kStallTime{30'000};

class Connection {
 public:
  /// fd: connected and not blocking. stall_time: see write().
  Connection(UniqueFd fd, std::string remote_address, std::chrono::milliseconds stall_time = kStallTime);

  int fd() const { return fd_.get(); }
  const std::string& remote_address() const { return remote_address_; }

  /// Called by the poller. Reads the available bytes without waiting, and checks whether a request's head is
  /// complete.
  enum class Head { kIncomplete, kComplete, kClosed, kBad };
  Head receive_head();
  /// After kBad, the status to answer with: 400, 414 or 431.
  int bad_status() const { return bad_status_; }
  /// Whether any byte of the next request has arrived.
  bool has_input() const { return !input_.empty(); }

  /// Called by a worker. Removes and returns the complete head: the request line and the header lines, each
  /// ended by CRLF, including the empty line.
  std::string take_head();
  /// Called by a worker. Starts the deadline of a request's body.
  void begin_body();
  /// Reads up to `size` bytes, buffered ones first. Returns 0 if the client closed, -1 on an error or if the
  /// client sent too slowly for the body's deadline.
  ssize_t read(char* to, size_t size);
  /// Sends all bytes. Returns false if the client is gone or takes no bytes for the stall time. The kernel's
  /// buffer counts as full until a third of it is free, so a client that takes only a few bytes at a time is
  /// cut off too.
  bool write(std::string_view bytes);
  /// Whether the client is still connected. One poll of the socket.
  bool client_alive() const;
  /// Bytes sent since begin_body().
  uint64_t bytes_sent() const { return bytes_sent_; }

  /// Stops all sending and receiving; a thread that waits on the socket wakes up. Any thread.
  void break_off();
  /// Makes the close send a reset, so that the client cannot mistake the bytes it received for the whole
  /// answer.
  void reset_on_close();
  /// Shuts down the sending side; the client may still be sending.
  void finish_sending();
  /// Discards the client's further bytes. Returns false once the client has closed.
  bool discard_input();

  SteadyTime deadline;     // for the poller: when to close the connection
  bool lingering = false;  // for the poller: the last answer was sent, and only the client's close is awaited
  int n_requests = 0;      // number answered so far

 private:
  Head check_head();

  UniqueFd fd_;
  std::string remote_address_;
  std::chrono::milliseconds stall_time_;
  std::string input_;  // received; bytes before used_ are consumed
  size_t used_ = 0;
  size_t scanned_ = 0;  // the head does not end before this index
  int bad_status_ = 0;
  SteadyTime body_start_;
  uint64_t body_bytes_ = 0, bytes_sent_ = 0;
};

}  // namespace hearth
