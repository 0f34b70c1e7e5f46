// Resolves the values of --model to files (profiler/store/find_model.h), and downloads missing models at
// start.
//
// The network is used only at start, and only for a missing model, so a server without a network can serve
// the models in the store. The download runs in a child process, so that the server does not keep libcurl's
// threads and memory.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "config/environment.h"
#include "config/options.h"
#include "kernels/base/unique_fd.h"

namespace hearth {

/// Replaces names in each --model, --draft-model and --embedding-model with paths of files. Does not
/// download; throws ReferenceError if a model is missing.
void use_local_models(Options& options, const Environment& environment);

/// Like use_local_models(), but downloads missing models. Calls `waiting` about once a second during a
/// download. Returns 0 on success. Returns the exit code for the process if a download failed (the error has
/// been printed) or was ended by a signal. REQUIRES: no other thread exists.
int pull_and_use_models(Options& options, const Environment& environment,
                        const std::function<void()>& waiting);

/// Holds locks on the files of these models, so that `hearthd rm` detects that they are in use. Files that
/// cannot be locked are served without a lock.
class ModelsInUse {
 public:
  explicit ModelsInUse(const Options& options);

 private:
  std::vector<UniqueFd> locks_;
};

}  // namespace hearth
