// Sends one GET request over a socket with timeouts.
#include "server/process/healthcheck.h"

#include <netdb.h>
#include <sys/socket.h>
#include <sys/time.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <memory>

#include "kernels/base/unique_fd.h"
#include "server/process/openssl_handles.h"

namespace hearth {
namespace {

constexpr size_t kMaxAnswerBytes = 64 * 1024;  // usually, an answer has a few hundred bytes

UniqueFd connect_to(const std::string& host, int port, std::string& error) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const int result = ::getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &found);
  if (result != 0) {
    error = ::gai_strerror(result);
    return {};
  }
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> addresses(found, &::freeaddrinfo);
  for (const addrinfo* address = found; address != nullptr; address = address->ai_next) {
    UniqueFd fd(::socket(address->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
    const timeval limit{4, 0};  // less than the usual 5 s of container runtimes
    ::setsockopt(fd.get(), SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
    ::setsockopt(fd.get(), SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit));  // connect() has this limit too
    if (::connect(fd.get(), address->ai_addr, address->ai_addrlen) == 0) return fd;
    error = std::strerror(errno);
  }
  return {};
}

/// The bytes of a request and its answer, over TCP or over TLS.
class HealthExchange {
 public:
  /// Performs the handshake if the server uses TLS.
  HealthExchange(int fd, bool tls) : fd_(fd) {
    if (!tls) return;
    context_.reset(SSL_CTX_new(TLS_client_method()));
    session_.reset(context_ ? SSL_new(context_.get()) : nullptr);
    is_open_ = session_ && SSL_set_fd(session_.get(), fd) == 1 && SSL_connect(session_.get()) == 1;
  }
  bool is_open() const { return is_open_; }
  void send(const std::string& bytes) const {
    if (session_) {
      SSL_write(session_.get(), bytes.data(), static_cast<int>(bytes.size()));
    } else {
      ::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    }
  }
  /// Returns a positive number of bytes, or anything else at the end.
  ssize_t receive(std::array<char, 4096>& to) const {
    if (session_) return SSL_read(session_.get(), to.data(), static_cast<int>(to.size()));
    return ::recv(fd_, to.data(), to.size(), 0);
  }

 private:
  int fd_;
  SslContextHandle context_;
  SslHandle session_;
  bool is_open_ = true;
};

}  // namespace

HealthcheckResult check_health(const std::string& host, int port, bool tls) {
  std::string target = host.size() > 2 && host.front() == '[' ? host.substr(1, host.size() - 2) : host;
  if (target == "0.0.0.0") target = "127.0.0.1";
  if (target == "::") target = "::1";
  std::string error;
  const UniqueFd fd = connect_to(target, port, error);
  if (!fd) return {false, "no server answers on " + target + " port " + std::to_string(port) + ": " + error};
  const std::string request = "GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
  const HealthExchange exchange(fd.get(), tls);
  if (!exchange.is_open()) {
    return {false, "the server on port " + std::to_string(port) +
                       " does not complete a TLS handshake: " + take_openssl_error()};
  }
  exchange.send(request);
  std::string answer;
  std::array<char, 4096> chunk;
  for (ssize_t n = 0; answer.size() < kMaxAnswerBytes; answer.append(chunk.data(), static_cast<size_t>(n))) {
    n = exchange.receive(chunk);
    if (n <= 0) break;
  }
  const size_t body = answer.find("\r\n\r\n");
  if (body == std::string::npos)
    return {false, "the server on port " + std::to_string(port) + " did not answer in time"};
  return {answer.rfind("HTTP/1.1 200 ", 0) == 0, answer.substr(body + 4)};
}

}  // namespace hearth
