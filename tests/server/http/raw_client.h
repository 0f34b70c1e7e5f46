// A client that sends exactly the bytes that a test gives and reads until the server is done, which no HTTP
// library would do.
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include <array>
#include <string>
#include <string_view>

#include "kernels/base/unique_fd.h"

namespace hearth {

class RawClient {
 public:
  RawClient() : fd_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {}
  explicit RawClient(int port) : RawClient() { connect(port); }
  void connect(int port) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<uint16_t>(port));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    connected_ = ::connect(fd_.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0;
  }
  bool connected() const { return connected_; }
  void send(std::string_view bytes) const {
    while (!bytes.empty()) {
      const ssize_t n = ::send(fd_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (n <= 0) return;
      bytes.remove_prefix(static_cast<size_t>(n));
    }
  }
  /// Reads until `end` appears (or, if it is empty, until the server closes), waiting a minute at most for
  /// each piece.
  std::string read_until(std::string_view end = "") {
    std::string got;
    while (end.empty() || got.find(end) == std::string::npos) {
      pollfd entry{fd_.get(), POLLIN, 0};
      if (::poll(&entry, 1, 60'000) <= 0) return got + "<timeout>";
      std::array<char, 4096> chunk;
      const ssize_t n = ::recv(fd_.get(), chunk.data(), chunk.size(), 0);
      if (n == 0) return got + "<closed>";
      if (n < 0) return got + "<reset>";
      got.append(chunk.data(), static_cast<size_t>(n));
    }
    return got;
  }
  /// Returns whether the server has sent something or closed the connection.
  bool has_input() const {
    pollfd entry{fd_.get(), POLLIN, 0};
    return ::poll(&entry, 1, 0) > 0;
  }
  void close() { fd_.reset(); }

 private:
  UniqueFd fd_;
  bool connected_ = false;
};

/// Sends the bytes on a new connection and returns everything that the server sends until it closes.
inline std::string ask(int port, std::string_view bytes) {
  RawClient client(port);
  client.send(bytes);
  return client.read_until();
}

}  // namespace hearth
