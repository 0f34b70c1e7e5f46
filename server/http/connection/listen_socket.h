// Opens the TCP port that hearthd listens on. Called once at start, on the main thread.
#pragma once

#include <string>

#include "kernels/base/unique_fd.h"
#include "server/process/start_error.h"

namespace hearth {

/// Its message is one sentence: the address, what is wrong with it, and the remedy.
class ListenError : public StartError {
 public:
  using StartError::StartError;
};

struct ListenSocket {
  UniqueFd fd;  // listening, not blocking
  int port = 0;
};

/// host: an IPv4 or IPv6 address (in brackets or not) or a name. Binds the first address of the host that can
/// be bound. port: 0 selects any free port. Throws ListenError.
ListenSocket open_listen_socket(const std::string& host, int port);

/// "127.0.0.1" and "8080" -> "http://127.0.0.1:8080". IPv6 is put in brackets; a wildcard becomes the
/// loopback address, so that the URL works on this machine.
std::string local_url(const std::string& host, int port);

/// Whether the host names only this machine (127.0.0.0/8, ::ffff:127..., ::1, localhost).
bool is_loopback(const std::string& host);

}  // namespace hearth
