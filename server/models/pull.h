// Pulls a model: turns a name into complete, verified files in the store, or changes nothing.
//
// 1. Resolve the name: request the list of the repository's files from the hub. A URL needs no resolution.
// 2. If the model is already in the store, download nothing unless the hub has a newer file.
// 3. Check the disk space before any download.
// 4. Download all parts into .partial and lock them, so that a second pull of the same file waits.
// 5. Read the head of the downloaded files as the engine does. Delete files that are not a model.
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
  std::string model;   // the name from the user: hf:..., a URL, or a known name
  std::string sha256;  // expected checksum for a URL; empty if unknown
  std::string token_file;
  int n_retries = 8;
  bool any_architecture = false;
};

/// Returns the path of the model, or of the first part if it is split. Throws ReferenceError, PullError or
/// PullInterrupted. Reports progress on standard error.
std::filesystem::path pull_model(const PullOptions& pull, const Options& options,
                                 const Environment& environment);

/// While this object exists, SIGINT and SIGTERM end a pull cleanly: the first signal is recorded, and the
/// second ends the process.
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
