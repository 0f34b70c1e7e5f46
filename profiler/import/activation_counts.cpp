// Finds the files in the folder, checks that they fit the model, then reads the counts.
#include "profiler/import/activation_counts.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <map>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "engine/model/gguf/mapped_file.h"
#include "kernels/base/file_error.h"
#include "profiler/import/torch_tensor.h"

namespace hearth {
namespace {

namespace fs = std::filesystem;
using file_error::fail;
using file_error::file_label;

constexpr std::string_view kPrefix = "activation_";
constexpr std::string_view kSuffix = ".pt";
// The largest layer number that is accepted in a file's name. No model has nearly as many layers.
constexpr int kMaxLayer = 9999;

// Returns the layer in a file's name, or -1 if the file does not hold counts.
int layer_of(std::string_view name) {
  if (!name.starts_with(kPrefix) || !name.ends_with(kSuffix) ||
      name.size() <= kPrefix.size() + kSuffix.size()) {
    return -1;
  }
  const char* begin = name.data() + kPrefix.size();
  const char* end = name.data() + name.size() - kSuffix.size();
  int layer = -1;
  const std::from_chars_result result = std::from_chars(begin, end, layer);
  const bool is_number = result.ec == std::errc{} && result.ptr == end && *begin != '-';
  return is_number && layer <= kMaxLayer ? layer : -1;
}

std::map<int, fs::path> find_layers(const fs::path& folder, const std::string& label) {
  std::map<int, fs::path> layers;
  std::error_code error;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    const int layer = layer_of(it->path().filename().string());
    if (layer < 0) continue;
    const auto [other, is_new] = layers.emplace(layer, it->path());
    if (!is_new) {
      fail(label, "layer " + std::to_string(layer) + " has two files, " + other->second.filename().string() +
                      " and " + it->path().filename().string() + ", expected one; remove the wrong one");
    }
  }
  if (error) {
    fail(label, "the folder cannot be listed (" + error.message() +
                    "); check that it is a folder, and its permissions");
  }
  return layers;
}

void check_layers(const std::map<int, fs::path>& layers, int n_layers, const std::string& label) {
  const std::string files = "activation_0.pt to activation_" + std::to_string(n_layers - 1) + ".pt";
  if (layers.empty()) fail(label, "it holds no activation counts, expected " + files);
  int expected = 0;
  for (const auto& [layer, path] : layers) {
    if (layer != expected++) {
      fail(label, "activation_" + std::to_string(expected - 1) + ".pt is missing, expected " + files +
                      "; download the folder again");
    }
  }
  if (expected != n_layers) {
    fail(label, "it is of another model: it has " + std::to_string(expected) + " layers, this model " +
                    std::to_string(n_layers));
  }
}

std::vector<double> read_layer(const fs::path& path, int d_ff) {
  const std::string label = file_label(path.string());
  const gguf::MappedFile mapped = gguf::MappedFile::open(path, "a tensor of activation counts");
  std::vector<double> counts = read_torch_vector(mapped.bytes(), label);
  if (counts.size() != static_cast<size_t>(d_ff)) {
    fail(label, "it is of another model: it has counts of " + file_error::with_commas(counts.size()) +
                    " neurons, a layer of this model has " +
                    file_error::with_commas(static_cast<uint64_t>(d_ff)));
  }
  for (size_t i = 0; i < counts.size(); ++i) {
    if (std::isfinite(counts[i]) && counts[i] >= 0) continue;
    fail(label, "neuron " + file_error::with_commas(i) + " has count " + std::to_string(counts[i]) +
                    ", expected a number of at least 0: the file is damaged; download it again");
  }
  return counts;
}

}  // namespace

ActivityProfile read_activation_counts(const fs::path& folder, int n_layers, int d_ff) {
  const std::string label = file_label(folder.string());
  const std::map<int, fs::path> layers = find_layers(folder, label);
  check_layers(layers, n_layers, label);
  ActivityProfile profile;
  for (const auto& [layer, path] : layers) profile.counts.push_back(read_layer(path, d_ff));
  return profile;
}

Activity imported_activity(const ActivityProfile& profile, const ModelIdentity& model, double active_share,
                           const std::string& label) {
  double most = 0, sum = 0;
  for (const std::vector<double>& layer : profile.counts) {
    for (const double count : layer) {
      most = std::max(most, count);
      sum += count;
    }
  }
  if (most == 0) fail(label, "no neuron was active in it, so it tells nothing; download it again");
  const double n_neurons = static_cast<double>(model.n_layers) * model.d_ff;
  double n_tokens = std::max(most, std::ceil(sum / (n_neurons * active_share)));

  // Scale the counts if they are too large for the activity file, or so small that they may be shares instead
  // of counts. Only their proportions matter.
  constexpr double kMost = std::numeric_limits<uint32_t>::max(), kFew = 1 << 10, kEnough = 1 << 20;
  const double scale = n_tokens > kMost ? kMost / n_tokens : n_tokens < kFew ? kEnough / n_tokens : 1;
  n_tokens = std::floor(n_tokens * scale);

  Activity activity;
  activity.model = model;
  ActivityCounts& counts = activity.of(ActivitySource::kPrompt) = ActivityCounts(model.n_layers, model.d_ff);
  counts.n_tokens = static_cast<uint32_t>(n_tokens);
  auto active = counts.active.begin();
  for (const std::vector<double>& layer : profile.counts) {
    active = std::ranges::transform(layer, active, [&](double count) {
               return static_cast<uint32_t>(std::min(std::round(count * scale), n_tokens));
             }).out;
  }
  activity.texts.insert(sha256(std::as_bytes(std::span(counts.active))));
  return activity;
}

}  // namespace hearth
