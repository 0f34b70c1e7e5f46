// See the header.
#include "server/http/connection/byte_channel.h"

#include <openssl/err.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <cstring>
#include <utility>

namespace hearth {
namespace {

bool must_wait(int error) { return error == EAGAIN || error == EWOULDBLOCK; }

int at_most_int(size_t size) { return static_cast<int>(std::min<size_t>(size, INT_MAX)); }

}  // namespace

ByteChannel::ByteChannel(UniqueFd fd, SslHandle session) : fd_(std::move(fd)), session_(std::move(session)) {}

ssize_t ByteChannel::receive_plain(char* to, size_t size) const {
  for (;;) {
    const ssize_t n = ::recv(fd_.get(), to, size, 0);
    if (n >= 0) return n;
    if (errno != EINTR) return must_wait(errno) ? kWait : kFailed;
  }
}

/// Whether the client has begun with a TLS record. If it has sent nothing, or text, returns false and sets
/// the result.
bool ByteChannel::begins_tls(ssize_t& result) {
  unsigned char first = 0;
  ssize_t n = 0;
  do {
    n = ::recv(fd_.get(), &first, 1, MSG_PEEK);
  } while (n < 0 && errno == EINTR);
  if (n <= 0) {
    result = n == 0 ? kClosed : must_wait(errno) ? kWait : kFailed;
    return false;
  }
  // A handshake begins with the byte 22, and a request with a letter.
  if (first < 'A' || first > 'Z') return true;
  session_.reset();
  result = kNotTls;
  return false;
}

ssize_t ByteChannel::outcome(int result) {
  wanted_ = POLLIN;
  if (result > 0) return result;
  const int system_error = errno;
  switch (SSL_get_error(session_.get(), result)) {
    case SSL_ERROR_WANT_READ:
      return kWait;
    case SSL_ERROR_WANT_WRITE:
      wanted_ = POLLOUT;
      return kWait;
    case SSL_ERROR_ZERO_RETURN:
      return kClosed;
    case SSL_ERROR_SYSCALL:
      failure_ = system_error == 0 ? "the client closed the connection" : std::strerror(system_error);
      break;
    default:
      failure_ = take_openssl_error();
  }
  ERR_clear_error();
  return kFailed;
}

ssize_t ByteChannel::receive(char* to, size_t size) {
  if (!session_) return receive_plain(to, size);
  if (!failure_.empty()) return kFailed;
  ssize_t result = 0;
  if (!has_begun_ && !begins_tls(result)) return result;
  has_begun_ = true;
  ERR_clear_error();
  errno = 0;
  return outcome(SSL_read(session_.get(), to, at_most_int(size)));
}

ssize_t ByteChannel::send(std::string_view bytes) {
  if (session_) {
    if (!failure_.empty()) return kFailed;
    ERR_clear_error();
    errno = 0;
    const ssize_t n = outcome(SSL_write(session_.get(), bytes.data(), at_most_int(bytes.size())));
    return n == kClosed ? kFailed : n;
  }
  wanted_ = POLLIN;
  for (;;) {
    const ssize_t n = ::send(fd_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (n > 0) return n;
    if (n < 0 && errno == EINTR) continue;
    if (n == 0 || !must_wait(errno)) return kFailed;
    wanted_ = POLLOUT;
    return kWait;
  }
}

bool ByteChannel::peer_listens() {
  // POLLRDHUP is set when the client has closed its side, even if bytes from the client are still unread.
  pollfd entry{fd_.get(), POLLRDHUP, 0};
  if (session_) entry.events |= POLLIN;
  if (::poll(&entry, 1, 0) < 0) return errno == EINTR;
  if ((entry.revents & (POLLRDHUP | POLLHUP | POLLERR | POLLNVAL)) != 0) return false;
  if (!session_ || (entry.revents & POLLIN) == 0) return true;
  // A client may end TLS and leave TCP open. OpenSSL notices when it reads the client's last record.
  if (!failure_.empty()) return false;
  char next = 0;
  ERR_clear_error();
  errno = 0;
  const ssize_t n = outcome(SSL_peek(session_.get(), &next, 1));
  return n > 0 || n == kWait;
}

void ByteChannel::finish_sending() {
  if (session_ && failure_.empty() && SSL_is_init_finished(session_.get()) != 0) {
    ERR_clear_error();
    SSL_shutdown(session_.get());  // sends the last record; if the buffer has no room for it, TCP ends anyway
    ERR_clear_error();
  }
  ::shutdown(fd_.get(), SHUT_WR);
}

ssize_t ByteChannel::discard() {
  std::array<char, 16 * 1024> chunk;
  return receive_plain(chunk.data(), chunk.size());
}

}  // namespace hearth
