// Pulls a model: turns a name into complete, verified files in the store, or changes nothing.
//
// 1. Resolve: ask the hub for the repository's files; a URL stands for itself.
// 2. Check whether the model is already there; if so, download nothing unless the hub has a newer file.
// 3. Check for disk space before any download.
// 4. Download all parts into .partial, with locks: a second pull of the same file waits.
// 5. Read the head as the engine does. Delete files that are not a model.
// 6. Move all parts to their final names.
//
// Runs on one thread, in a process that does not serve.
#pragma once

#include <filesystem>
#include <functional>
#include <string>

#include "config/environment.h"
#include "config/options.h"
#include "server/store/hub.h"
#include "server/store/model_store.h"
#include "server/store/part_file.h"

namespace hearth {

struct PullOptions {
  std::string model;   // as the user named it: hf:, URL, or a known name
  std::string sha256;  // for a URL; empty: unknown
  std::string token_file;
  int n_retries = 8;
  bool any_architecture = false;
};

/// Returns the path of the model (first part of a split one). Throws ReferenceError, PullError,
/// PullInterrupted. Reports its progress on standard error.
std::filesystem::path pull_model(const PullOptions& pull, const Options& options,
                                 const Environment& environment);

/// While it exists, SIGINT and SIGTERM end a pull cleanly: the first is recorded, the second ends the
/// process.
class PullSignals {
 public:
  PullSignals();
  ~PullSignals();
  PullSignals(const PullSignals&) = delete;
  PullSignals& operator=(const PullSignals&) = delete;
  /// The signal that arrived; 0 if none.
  static int signal();
};

}  // namespace hearth
