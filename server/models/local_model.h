// From what --model says to a file: names are looked up in the store, and pulled at start if they are not there.
//
// Only the start goes to the network, and only for a name that is not here; a start without network serves what is here.
// The pull runs in a process of its own, so that the server begins without the library's threads and memory.
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

/// The file that a name, an hf: reference or a URL means, if it is in the store. Nobody else is asked whether it is the newest.
std::optional<std::filesystem::path> model_in_store(const std::string& text, const Options& options,
                                                    const Environment& environment);

/// The same, or the text itself if it is a path. Throws ReferenceError, which says what to do, if the model is not there.
std::filesystem::path local_model(const std::string& text, const Options& options,
                                  const Environment& environment);

/// Replaces names in --model, --draft-model and --embedding-model by the files that they mean. Nothing is pulled: throws
/// ReferenceError for what is not here.
void use_local_models(Options& options, const Environment& environment);

/// Like use_local_models(), but pulls what is not here. `waiting` is called about once a second while a pull runs. Returns 0,
/// or the exit code to end with: the pull has failed, and has said why, or a signal ended it. REQUIRES: no other thread
/// exists.
int pull_and_use_models(Options& options, const Environment& environment,
                        const std::function<void()>& waiting);

/// Locks that tell `hearthd rm` that models of the store are in use, for as long as this lives. A file that cannot be
/// locked is served all the same.
class ModelsInUse {
 public:
  explicit ModelsInUse(const Options& options);

 private:
  std::vector<UniqueFd> locks_;
};

}  // namespace hearth
