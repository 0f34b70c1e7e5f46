// Which files there are, whether they are this model's, then their numbers.
#include "engine/activity/activation_counts.h"

#include <charconv>
#include <cmath>
#include <map>
#include <string_view>
#include <system_error>

#include "engine/activity/torch_tensor.h"
#include "engine/model/gguf/fault.h"
#include "engine/model/gguf/mapped_file.h"

namespace hearth::activity {
namespace {

namespace fs = std::filesystem;
using gguf::fail;
using gguf::file_label;

constexpr std::string_view kPrefix = "activation_";
constexpr std::string_view kSuffix = ".pt";
constexpr int kMaxLayer = 9999;  // far above any model's; a larger number is no layer's

// The layer a file's name tells, or -1 if it is none of ours.
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
    fail(label, "it is of another model: it has counts of " + gguf::with_commas(counts.size()) +
                    " neurons, a layer of this model has " + gguf::with_commas(static_cast<uint64_t>(d_ff)));
  }
  for (size_t i = 0; i < counts.size(); ++i) {
    if (std::isfinite(counts[i]) && counts[i] >= 0) continue;
    fail(label, "neuron " + gguf::with_commas(i) + " has count " + std::to_string(counts[i]) +
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

}  // namespace hearth::activity
