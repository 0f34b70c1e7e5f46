// The thread that accepts connections and keeps each until the head of a request has arrived.
//
// A connection that sends nothing, or sends slowly, uses a descriptor but no thread, so half-open connections
// cannot prevent an answer to /health. When descriptors run out, the connection with the nearest deadline is
// closed. Workers return connections, which then wait for their next request.
//
// The thread also performs the handshakes of TLS, whose messages are received like those of a head and have
// its deadline. A handshake computes one signature: 0.1 ms with a key on the curve P-256, 1 ms with RSA.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "kernels/base/mutex.h"
#include "kernels/base/unique_fd.h"
#include "server/http/connection/connection.h"
#include "server/http/connection/tls_identity.h"

namespace hearth {

struct PollerOptions {
  size_t max_waiting = 1000;  // if more connections wait, those with the nearest deadlines are closed
  /// Time from accept(), or from the first byte of a later request, to the end of the head.
  std::chrono::milliseconds head_time{10'000};
  std::chrono::milliseconds idle_time{75'000};        // time between requests; most proxies use 60 s
  std::chrono::milliseconds stall_time = kStallTime;  // a client that reads no bytes for this long is cut off
  const TlsIdentity* tls = nullptr;  // of the port; null: TCP without TLS. Must outlive the poller.
  std::function<SteadyTime()> now = std::chrono::steady_clock::now;
};

class ConnectionPoller {
 public:
  /// on_request: receives a connection with a complete head. If it returns false, the poller keeps the
  /// connection and answers 503. refusal: returns the bytes of an error answer; status: 400, 408, 414, 431 or
  /// 503.
  ConnectionPoller(UniqueFd listen_fd, PollerOptions options,
                   std::function<bool(std::unique_ptr<Connection>&)> on_request,
                   std::function<std::string(int status)> refusal);
  /// Stops the thread and waits for it.
  ~ConnectionPoller();

  void start();
  /// Closes the port and all waiting connections, and waits for the thread. Later calls have no effect.
  void stop();
  /// Returns a connection to the poller. It then waits for its next request or, if it is lingering, until the
  /// client closes it. Any thread may call it.
  void give_back(std::unique_ptr<Connection> connection);

 private:
  void run();
  void accept_all();
  void add(UniqueFd fd, std::string remote_address);
  bool close_first_to_expire();
  void take_returned();
  /// Handles input of a connection. Returns false if the poller no longer keeps the connection.
  bool advance(std::unique_ptr<Connection>& connection);
  void refuse(Connection& connection, std::string_view answer);
  void expire();
  void wake();
  int wait_ms() const;

  UniqueFd listen_fd_;
  const PollerOptions options_;
  const std::function<bool(std::unique_ptr<Connection>&)> on_request_;
  const std::function<std::string(int)> refusal_;
  UniqueFd wake_fd_;
  std::atomic<bool> stopping_{false};
  SteadyTime accept_again_;  // set if descriptors ran out and none could be freed

  Mutex mutex_;
  std::vector<std::unique_ptr<Connection>> returned_ HEARTH_GUARDED_BY(mutex_);
  std::vector<std::unique_ptr<Connection>> waiting_;  // used by the poller's thread only
  std::thread thread_;
};

}  // namespace hearth
