// Calls getaddrinfo(), bind() and listen(). Reports each failure as a sentence.
#include "server/http/connection/listen_socket.h"

#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>
#include <memory>

namespace hearth {
namespace {

// Maximum number of connections that wait in the kernel until accept() returns them. With the usual default
// of 5, a burst of clients would be refused.
constexpr int kBacklog = 1024;

std::string without_brackets(const std::string& host) {
  const bool bracketed = host.size() > 2 && host.front() == '[' && host.back() == ']';
  return bracketed ? host.substr(1, host.size() - 2) : host;
}

UniqueFd bind_address(const addrinfo& address) {
  UniqueFd fd(::socket(address.ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!fd) return fd;
  const int on = 1;
  // A restarted server must not wait for old connections to leave TIME_WAIT.
  ::setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  if (::bind(fd.get(), address.ai_addr, address.ai_addrlen) != 0 || ::listen(fd.get(), kBacklog) != 0) {
    const int error = errno;
    fd.reset();
    errno = error;
  }
  return fd;
}

int bound_port(int fd) {
  sockaddr_storage address{};
  socklen_t size = sizeof(address);
  if (::getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size) != 0) return 0;
  if (address.ss_family == AF_INET6) return ntohs(reinterpret_cast<sockaddr_in6*>(&address)->sin6_port);
  return ntohs(reinterpret_cast<sockaddr_in*>(&address)->sin_port);
}

std::string bind_failure(const std::string& host, int port, int error) {
  const std::string where = host + " port " + std::to_string(port);
  switch (error) {
    case EADDRINUSE:
      return where +
             " is in use by another program; stop that one or choose another --port (0: any free one)";
    case EACCES:
      return where + " may not be opened by this user; choose a --port of 1024 or above";
    case EADDRNOTAVAIL:
      return where + ": this machine has no such address; choose another --host";
    default:
      return where + " cannot be opened: " + std::strerror(error);
  }
}

}  // namespace

ListenSocket open_listen_socket(const std::string& host, int port) {
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE | AI_NUMERICSERV;
  addrinfo* found = nullptr;
  const int result =
      ::getaddrinfo(without_brackets(host).c_str(), std::to_string(port).c_str(), &hints, &found);
  if (result != 0)
    throw ListenError("--host " + host + " is not an address of this machine: " + ::gai_strerror(result));
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> addresses(found, &::freeaddrinfo);

  int error = 0;
  for (const addrinfo* address = found; address != nullptr; address = address->ai_next) {
    ListenSocket listening;
    listening.fd = bind_address(*address);
    if (listening.fd) {
      listening.port = bound_port(listening.fd.get());
      return listening;
    }
    error = errno;
  }
  throw ListenError(bind_failure(host, port, error));
}

std::string local_url(const std::string& host, int port, bool tls) {
  std::string name = without_brackets(host);
  if (name == "0.0.0.0") name = "127.0.0.1";
  if (name == "::") name = "::1";
  if (name.find(':') != std::string::npos) name = '[' + name + ']';
  return (tls ? "https://" : "http://") + name + ':' + std::to_string(port);
}

bool is_loopback(const std::string& host) {
  const std::string name = without_brackets(host);
  return name.rfind("127.", 0) == 0 || name.rfind("::ffff:127.", 0) == 0 || name == "::1" ||
         name == "localhost";
}

}  // namespace hearth
