// The thread that accepts connections and holds them until a request's head has arrived.
//
// A connection that sends nothing, or sends slowly, costs a descriptor but no thread, so half-open
// connections cannot keep /health from being answered. When descriptors run out, the connection that would
// expire first is closed to make room. Workers give connections back to wait for their next request.
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

namespace hearth {

struct PollerOptions {
  size_t max_waiting = 1000;  // beyond this number, the connection that would expire first is closed
  /// Time from accept(), or from the first byte of a later request, to the end of the request's head.
  std::chrono::milliseconds head_time{10'000};
  std::chrono::milliseconds idle_time{75'000};  // time between requests; longer than the 60 s of most proxies
  std::chrono::milliseconds stall_time = kStallTime;  // a client that takes no bytes for this long is cut off
  std::function<SteadyTime()> now = std::chrono::steady_clock::now;
};

class ConnectionPoller {
 public:
  /// on_request: takes over a connection whose head is complete. If it returns false, the connection stays
  /// with the poller, which answers 503. refusal: returns the whole answer, head and body, to a request that
  /// is not served; status is 400, 408, 414, 431 or 503.
  ConnectionPoller(UniqueFd listen_fd, PollerOptions options,
                   std::function<bool(std::unique_ptr<Connection>&)> on_request,
                   std::function<std::string(int status)> refusal);
  /// Stops the thread and joins it.
  ~ConnectionPoller();

  void start();
  /// Closes the port and all waiting connections, and joins. Idempotent.
  void stop();
  /// Takes a connection back to wait for its next request or, if it is lingering, for the client to close.
  /// Any thread.
  void give_back(std::unique_ptr<Connection> connection);

 private:
  void run();
  void accept_all();
  bool close_first_to_expire();
  void take_returned();
  /// Handles a connection that has input. Returns false if the poller no longer keeps the connection.
  bool advance(std::unique_ptr<Connection>& connection);
  void refuse(Connection& connection, int status);
  void expire();
  void wake();
  int wait_ms() const;

  UniqueFd listen_fd_;
  const PollerOptions options_;
  const std::function<bool(std::unique_ptr<Connection>&)> on_request_;
  const std::function<std::string(int)> refusal_;
  UniqueFd wake_fd_;
  std::atomic<bool> stopping_{false};
  SteadyTime accept_again_;  // set when descriptors ran out and none could be freed

  Mutex mutex_;
  std::vector<std::unique_ptr<Connection>> returned_ HEARTH_GUARDED_BY(mutex_);
  std::vector<std::unique_ptr<Connection>> waiting_;  // poller thread only
  std::thread thread_;
};

}  // namespace hearth
