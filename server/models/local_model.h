// Resolves the value of --model to a file: looks names up in the store, and pulls missing models at start.
//
// Only the start uses the network, and only for a missing model; without a network a start serves the models
// it has. The pull runs in a separate process, so that the server starts without the library's threads and
// memory.
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

/// The file for a name, hf: reference or URL, if it is in the store. Does not check whether it is the newest
/// version.
std::optional<std::filesystem::path> model_in_store(const std::string& text, const Options& options,
                                                    const Environment& environment);

/// Like model_in_store(), but returns a path as it is. Throws ReferenceError with advice if the model is not
/// in the store.
std::filesystem::path local_model(const std::string& text, const Options& options,
                                  const Environment& environment);

/// Replaces names in --model, --draft-model and --embedding-model by their files. Pulls nothing: throws
/// ReferenceError for a missing model.
void use_local_models(Options& options, const Environment& environment);

/// Like use_local_models(), but pulls missing models. Calls `waiting` about once a second during a pull.
/// Returns 0, or the exit code to end with if a pull failed (and reported why) or a signal ended it.
/// REQUIRES: no other thread exists.
int pull_and_use_models(Options& options, const Environment& environment,
                        const std::function<void()>& waiting);

/// Holds locks that tell `hearthd rm` that these models of the store are in use. A file that cannot be locked
/// is served anyway.
class ModelsInUse {
 public:
  explicit ModelsInUse(const Options& options);

 private:
  std::vector<UniqueFd> locks_;
};

}  // namespace hearth
