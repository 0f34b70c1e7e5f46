// The bytes of a connection: those of a TCP socket, or those inside the TLS session on it. No call waits.
//
// One thread at a time uses it, like Connection, which owns it. OpenSSL keeps bytes that it has received in
// memory, where poll() does not see them. Before a caller waits for the socket, it therefore calls receive()
// until that returns kWait. Writing to a closed socket raises SIGPIPE with TLS; REQUIRES: the process ignores
// it (secure_standard_streams()).
#pragma once

#include <poll.h>
#include <sys/types.h>

#include <string>
#include <string_view>

#include "kernels/base/unique_fd.h"
#include "server/process/openssl_handles.h"

namespace hearth {

class ByteChannel {
 public:
  /// fd: a connected socket that does not block. session: TLS on the socket; null: none.
  explicit ByteChannel(UniqueFd fd, SslHandle session = nullptr);

  int fd() const { return fd_.get(); }

  // Results of receive() and send() besides a number of bytes.
  static constexpr ssize_t kClosed = 0;   // the client sends no more
  static constexpr ssize_t kFailed = -1;  // the connection cannot be used
  static constexpr ssize_t kWait = -2;    // call again when the socket has wanted_events()
  static constexpr ssize_t kNotTls = -3;  // of receive(): the client sent a text instead of a TLS handshake

  /// Receives at most `size` bytes, at least one. The first calls of a TLS session perform its handshake.
  /// After kNotTls, the channel is one of plain TCP.
  ssize_t receive(char* to, size_t size);
  /// Sends a part of the bytes, at least one byte. After kWait, the next call gets the same bytes.
  ssize_t send(std::string_view bytes);
  /// POLLIN or POLLOUT: the event after which the call that returned kWait can continue. POLLIN before.
  short wanted_events() const { return wanted_; }

  /// Whether the client can still receive: it has ended neither TCP nor TLS. Costs one poll of the socket.
  bool peer_listens();
  /// Ends sending, so that the client knows that it has received all. The client may still send.
  void finish_sending();
  /// Discards bytes of the socket. Returns a number of bytes, kClosed, kFailed or kWait.
  ssize_t discard();

  /// The reason why a TLS session failed; empty if it did not.
  const std::string& failure() const { return failure_; }

 private:
  ssize_t receive_plain(char* to, size_t size) const;
  bool begins_tls(ssize_t& result);
  ssize_t outcome(int result);

  UniqueFd fd_;
  SslHandle session_;  // destroyed before the socket
  bool has_begun_ = false;
  short wanted_ = POLLIN;
  std::string failure_;
};

}  // namespace hearth
