// Reads the lines of any input as trusted proxies, the connection's address and X-Forwarded-For headers. The
// sender that results must be the connection's address or part of one of the lines. One thread.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <sstream>
#include <string>

#include "server/gate/trusted_proxies.h"
#include "server/process/start_error.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::istringstream lines(std::string(reinterpret_cast<const char*>(data), size));
  std::string network, line, all;
  hearth::HttpRequest request;
  std::getline(lines, network);
  std::getline(lines, request.remote_address);
  while (std::getline(lines, line)) {
    request.headers.emplace_back("X-Forwarded-For", line);
    all += line + ",";
  }
  try {
    const std::string sender = hearth::TrustedProxies({network}).sender(request);
    if (sender != request.remote_address && (sender.empty() || all.find(sender) == std::string::npos))
      std::abort();
  } catch (const hearth::StartError&) {  // not a network
  }
  return 0;
}
