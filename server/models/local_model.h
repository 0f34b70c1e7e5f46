// Resolves the value of --model to a file: looks up names in the store, and pulls missing models at start.
//
// The network is used only at start, and only for a missing model. Without a network, the server can still
// serve the models in the store. The pull runs in a separate process, so that the server starts without the
// threads and the memory of libcurl.
#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "config/environment.h"
#include "config/options.h"
#include "kernels/base/unique_fd.h"

namespace hearth {

/// Returns the file for a name, hf: reference or URL, if it is in the store. Does not check whether the hub
/// has a newer version.
std::optional<std::filesystem::path> model_in_store(const std::string& text, const Options& options,
                                                    const Environment& environment);

/// Like model_in_store(), but returns a path unchanged. If the model is not in the store, throws
/// ReferenceError with advice.
std::filesystem::path local_model(const std::string& text, const Options& options,
                                  const Environment& environment);

/// Replaces names in --model, --draft-model and --embedding-model with their files. Does not pull: throws
/// ReferenceError if a model is missing.
void use_local_models(Options& options, const Environment& environment);

/// Like use_local_models(), but pulls missing models. Calls `waiting` about once a second during a pull.
/// Returns 0 on success. Returns the exit code for the process if a pull failed (which has been reported) or
/// a signal ended it. REQUIRES: no other thread exists.
int pull_and_use_models(Options& options, const Environment& environment,
                        const std::function<void()>& waiting);

/// Holds locks by which `hearthd rm` detects that these models of the store are in use. A file that cannot be
/// locked is served without a lock.
class ModelsInUse {
 public:
  explicit ModelsInUse(const Options& options);

 private:
  std::vector<UniqueFd> locks_;
};

}  // namespace hearth
