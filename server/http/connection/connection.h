// A client's connection: its socket or TLS session, the bytes that were received but not used, and its
// deadlines.
//
// One thread at a time uses it: the poller while a request's head arrives, a worker while the request is
// answered. All waits are bounded, so that no client can occupy a thread forever.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

#include "server/http/connection/byte_channel.h"

namespace hearth {

using SteadyTime = std::chrono::steady_clock::time_point;

/// Limits of a request's head (request line and headers). Browsers and proxies send much less.
inline constexpr size_t kMaxHeadBytes = 32 * 1024;
inline constexpr size_t kMaxLineBytes = 8 * 1024;
inline constexpr size_t kMaxHeaderLines = 128;
/// A client that reads no bytes of its answer for this long counts as disconnected. Proxies commonly wait 60
/// s.
inline constexpr std::chrono::milliseconds kStallTime{30'000};

class Connection {
 public:
  /// fd: a connected socket that does not block. stall_time: as in write(). session: TLS on the socket, or
  /// null.
  Connection(UniqueFd fd, std::string remote_address, std::chrono::milliseconds stall_time = kStallTime,
             SslHandle session = nullptr);

  int fd() const { return channel_.fd(); }
  /// The event that the poller must wait for after receive_head() returned kIncomplete: POLLIN or POLLOUT.
  short wanted_events() const { return channel_.wanted_events(); }
  const std::string& remote_address() const { return remote_address_; }

  /// Called by the poller. Reads available bytes without waiting, and performs the handshake of TLS. Returns
  /// whether the head of a request is complete. kNotTls: a client without TLS uses a port that requires it.
  enum class Head { kIncomplete, kComplete, kClosed, kBad, kNotTls };
  Head receive_head();
  /// The status for the answer after kBad: 400, 414 or 431.
  int bad_status() const { return bad_status_; }
  /// The reason why TLS failed, for the log; empty if it did not.
  const std::string& tls_failure() const { return channel_.failure(); }
  /// Called by the poller. Sends the bytes if the socket's buffer has room for them, and then ends sending.
  void send_last(std::string_view bytes);
  /// Whether bytes of the next request have arrived.
  bool has_input() const { return !input_.empty(); }

  /// Called by a worker. Removes and returns the complete head: the request line and the header lines, each
  /// with its CRLF, and the empty line.
  std::string take_head();
  /// Called by a worker. Starts the deadline of the request's body.
  void begin_body();
  /// Reads up to `size` bytes, first those in the buffer. Returns 0 if the client closed the connection.
  /// Returns -1 on an error, or if the body arrives too slowly for its deadline.
  ssize_t read(char* to, size_t size);
  /// Sends all bytes. Returns false if the client has disconnected or reads nothing for the stall time. A
  /// client that reads only a few bytes at a time is cut off too, because the kernel's buffer counts as full
  /// until a third of it is free.
  bool write(std::string_view bytes);
  /// Whether the client is still connected. Costs one poll of the socket.
  bool client_alive();
  /// Number of bytes sent since begin_body().
  uint64_t bytes_sent() const { return bytes_sent_; }

  /// Ends all sending and receiving, and wakes a thread that waits for the socket. Any thread may call it.
  void break_off() const;
  /// Makes the connection end with a reset, so that the client does not take the bytes it has received for a
  /// whole answer.
  void reset_on_close();
  /// Ends sending. The client may still send.
  void finish_sending();
  /// Discards bytes from the client. Returns false when the client has closed the connection.
  bool discard_input();

  SteadyTime deadline;  // for the poller: time at which the connection is closed
  // For the poller: the last answer was sent, and the connection waits only for the client to close it.
  bool lingering = false;
  int n_requests = 0;  // number of requests answered

 private:
  Head check_head();

  ByteChannel channel_;
  std::string remote_address_;
  std::chrono::milliseconds stall_time_;
  std::string input_;  // received bytes; those before used_ have been used
  size_t used_ = 0;
  size_t scanned_ = 0;  // the end of the head is not before this index
  int bad_status_ = 0;
  SteadyTime body_start_;
  uint64_t body_bytes_ = 0, bytes_sent_ = 0;
};

}  // namespace hearth
