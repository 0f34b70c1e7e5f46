// Searches for activity files, and describes the result for the log.
#include "engine/activity/activity_profile.h"

#include <algorithm>
#include <numeric>
#include <string_view>
#include <system_error>

#include "engine/activity/activity_file.h"
#include "engine/activity/gpu_index.h"
#include "engine/model/model_file.h"
#include "kernels/base/file_error.h"

namespace hearth {
namespace {

namespace fs = std::filesystem;

using Reader = std::function<ActivityProfile(const fs::path& path, int n_layers, int d_ff)>;

// If a path cannot be examined, the file counts as present, so that reading it reports the reason.
bool is_there(const fs::path& path) {
  std::error_code error;
  return fs::exists(path, error) || error;
}

// Tries one file, unless a profile has been found already. Sets found.profile if the file can be used.
// Appends to found.sentence either the description of the file or the reason why it cannot be used.
void try_source(const Reader& read, const fs::path& path, std::string_view what, int n_layers, int d_ff,
                FoundActivity& found) {
  if (found.profile || !is_there(path)) return;
  if (!found.sentence.empty()) found.sentence += "; ";
  try {
    found.profile = read(path, n_layers, d_ff);
    found.sentence += std::string(what) + " of " + std::to_string(n_layers) +
                      (n_layers == 1 ? " layer from " : " layers from ") +
                      file_error::file_label(path.string());
  } catch (const ModelFileError& error) {
    found.sentence += error.what();
  }
}

ActivityProfile read_own(const fs::path& path, const ModelIdentity& model) {
  const Activity activity = read_activity(path);
  require_same_model(activity, model, file_error::file_label(path.string()));
  if (model.n_experts > 0) {
    file_error::fail(file_error::file_label(path.string()),
                     "it counts experts, but only neurons are ordered by activity");
  }
  if (activity.n_tokens() == 0) {
    file_error::fail(file_error::file_label(path.string()),
                     "no token was counted in it; run hearth-profiler count");
  }
  return activity.profile();
}

}  // namespace

std::vector<int32_t> ActivityProfile::hottest_first(int layer) const {
  const std::vector<double>& of_layer = counts[static_cast<size_t>(layer)];
  std::vector<int32_t> ids(of_layer.size());
  std::iota(ids.begin(), ids.end(), 0);
  std::stable_sort(ids.begin(), ids.end(), [&of_layer](int32_t a, int32_t b) {
    return of_layer[static_cast<size_t>(a)] > of_layer[static_cast<size_t>(b)];
  });
  return ids;
}

FoundActivity find_activity(const fs::path& model_path, int n_layers, int d_ff) {
  return find_activity(model_path, n_layers, d_ff, {});
}

FoundActivity find_activity(const fs::path& model_path, int n_layers, int d_ff,
                            const ActivitySearch& search) {
  FoundActivity found;
  if (search.model) {
    const auto read = [&search](const fs::path& path, int, int) { return read_own(path, search.model()); };
    if (!search.file.empty()) try_source(read, search.file, "activity", n_layers, d_ff, found);
    try_source(read, activity_path_beside(model_path), "activity", n_layers, d_ff, found);
  }
  const fs::path counts = model_path.parent_path() / "activation";
  if (!found.profile && is_there(counts / "activation_0.pt")) {
    if (!found.sentence.empty()) found.sentence += "; ";
    found.sentence += file_error::file_label(counts.string()) +
                      ": PowerInfer's activation counts are not read when a model is loaded; "
                      "hearth-profiler count --model MODEL --import FOLDER makes an activity file of them";
  }
  fs::path index = model_path;
  index += ".generated.gpuidx";
  try_source(activity::read_gpu_index, index, "hot neurons", n_layers, d_ff, found);
  if (!found.profile && !found.sentence.empty()) found.sentence += "; neurons keep the file's order";
  return found;
}

}  // namespace hearth
