// A hearthd that a chat in the terminal starts for itself: a child process on a free port of the loopback
// address.
//
// main uses it before it starts any thread.
#pragma once

#include <sys/types.h>

#include <functional>
#include <string>
#include <vector>

#include "kernels/base/unique_fd.h"

namespace hearth {

class OwnServer {
 public:
  /// Starts the program of this process with these arguments, to which it adds the port, and none of the
  /// variables HEARTH_*. Throws std::runtime_error if the system grants no process.
  explicit OwnServer(const std::vector<std::string>& arguments);
  /// Ends the server and waits for its end.
  ~OwnServer();
  OwnServer(const OwnServer&) = delete;
  OwnServer& operator=(const OwnServer&) = delete;

  /// Waits until the model is loaded. Calls `progress` with the share of the load that is done, from 0 to 1.
  /// Returns the server's URL. Throws std::runtime_error with the server's last error if it ended.
  std::string wait(const std::function<void(double)>& progress);

 private:
  /// Returns the port once the server has logged it, otherwise 0. Also keeps the last error of the log.
  int read_log();
  bool has_ended();

  UniqueFd log_;  // a file without a name
  std::string error_;
  pid_t child_ = -1;
  int status_ = 0;  // of the child, once child_ is -1
};

}  // namespace hearth
