// Downloads a model: turns a name into complete, verified files in the store. If this fails, the store's
// models are unchanged.
//
// 1. Get the list of the repository's files from the hub. A URL does not need this step.
// 2. If the model is in the store and the hub has no newer file, return it.
// 3. Check that the disk has enough space.
// 4. Download all parts into .partial. Lock them, so that another download of the same file waits.
// 5. Read the head of the downloaded files. Delete the files if they are not a model.
// 6. Move all parts to their final names.
//
// Runs on one thread, in a process that does not serve requests.
#pragma once

#include <filesystem>
#include <functional>
#include <string>

#include "config/environment.h"
#include "config/options.h"
#include "profiler/store/hub.h"
#include "profiler/store/model_store.h"
#include "profiler/store/part_file.h"

namespace hearth {

struct PullOptions {
  std::string model;   // hf:..., a URL, or the name of a known model
  std::string sha256;  // expected checksum for a URL; empty if unknown
  std::string token_file;
  int n_retries = 8;
  bool any_architecture = false;
};

/// Returns the path of the model, or of the first part if the model is split into parts. Reports progress on
/// standard error. Throws ReferenceError, PullError or PullInterrupted.
std::filesystem::path pull_model(const PullOptions& pull, const Options& options,
                                 const Environment& environment);

/// While this object exists, SIGINT and SIGTERM end a download cleanly. The first signal is recorded; a
/// second one ends the process.
class PullSignals {
 public:
  PullSignals();
  ~PullSignals();
  PullSignals(const PullSignals&) = delete;
  PullSignals& operator=(const PullSignals&) = delete;
  /// Returns the recorded signal, or 0 if none has arrived.
  static int signal();
};

}  // namespace hearth
