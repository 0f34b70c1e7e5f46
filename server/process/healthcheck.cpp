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

}  // namespace

HealthcheckResult check_health(const std::string& host, int port) {
  std::string target = host.size() > 2 && host.front() == '[' ? host.substr(1, host.size() - 2) : host;
  if (target == "0.0.0.0") target = "127.0.0.1";
  if (target == "::") target = "::1";
  std::string error;
  const UniqueFd fd = connect_to(target, port, error);
  if (!fd) return {false, "no server answers on " + target + " port " + std::to_string(port) + ": " + error};
  const std::string request = "GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
  ::send(fd.get(), request.data(), request.size(), MSG_NOSIGNAL);
  std::string answer;
  std::array<char, 4096> chunk;
  for (ssize_t n = 0; answer.size() < kMaxAnswerBytes; answer.append(chunk.data(), static_cast<size_t>(n))) {
    n = ::recv(fd.get(), chunk.data(), chunk.size(), 0);
    if (n <= 0) break;
  }
  const size_t body = answer.find("\r\n\r\n");
  if (body == std::string::npos)
    return {false, "the server on port " + std::to_string(port) + " did not answer in time"};
  return {answer.rfind("HTTP/1.1 200 ", 0) == 0, answer.substr(body + 4)};
}

}  // namespace hearth
