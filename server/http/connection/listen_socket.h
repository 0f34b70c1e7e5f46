// Opens hearthd's TCP port. Called once at start, on the main thread.
#pragma once

#include <string>

#include "kernels/base/unique_fd.h"
#include "server/process/start_error.h"

namespace hearth {

/// The message is one sentence: the address, the error and the remedy.
class ListenError : public StartError {
 public:
  using StartError::StartError;
};

struct ListenSocket {
  UniqueFd fd;  // listening, does not block
  int port = 0;
};

/// host: a name, or an IPv4 or IPv6 address with or without brackets. Binds the host's first address that can
/// be bound. port: 0 selects a free port. Throws ListenError.
ListenSocket open_listen_socket(const std::string& host, int port);

/// Returns a URL that works on this machine: "127.0.0.1" and 8080 -> "http://127.0.0.1:8080". An IPv6 address
/// gets brackets, and a wildcard address becomes the loopback address. tls: whether the port speaks HTTPS.
std::string local_url(const std::string& host, int port, bool tls = false);

/// Whether the host is this machine (127.0.0.0/8, ::ffff:127..., ::1, localhost).
bool is_loopback(const std::string& host);

}  // namespace hearth
