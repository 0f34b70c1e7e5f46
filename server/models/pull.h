// Pulling a model: from a name to files in the store, whole and checked, or nothing.
//
// 1. What is meant: the hub is asked for the repository's files; a URL is what it is.
// 2. Is it there? Then nothing is loaded, unless the hub has another file now.
// 3. Is there room? Before anything is loaded.
// 4. Load all parts into .partial, with locks: a second pull of the same file waits.
// 5. Read the head as the engine does. What is no model is deleted.
// 6. Give all parts their names.
//
// Runs on one thread (and one that computes checksums), in a process that serves nothing.
#pragma once

#include <filesystem>
#include <functional>
#include <string>

#include "config/environment.h"
#include "config/options.h"
#include "server/models/hub.h"
#include "server/models/model_store.h"
#include "server/models/part_file.h"

namespace hearth {

struct PullOptions {
  std::string model;   // as the user named it: hf:, URL, or a known name
  std::string sha256;  // for a URL; empty: unknown
  std::string token_file;
  int n_connections = 8, n_retries = 8;
  bool any_architecture = false;
};

/// Returns the path of the model (of a split one, of its first part). Throws ReferenceError, PullError, PullInterrupted.
/// Says on standard error what it does.
std::filesystem::path pull_model(const PullOptions& pull, const Options& options,
                                 const Environment& environment);

/// Until its end, SIGINT and SIGTERM end a pull in good order: the first is noted, the second ends the process.
class PullSignals {
 public:
  PullSignals();
  ~PullSignals();
  PullSignals(const PullSignals&) = delete;
  PullSignals& operator=(const PullSignals&) = delete;
  /// The signal that arrived; 0: none.
  static int signal();
};

}  // namespace hearth
