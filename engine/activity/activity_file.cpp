// See the header.
#include "engine/activity/activity_file.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <cstring>
#include <limits>
#include <optional>
#include <stdexcept>
#include <system_error>

#include "engine/activity/measurement_bytes.h"
#include "engine/model/gguf/mapped_file.h"
#include "kernels/base/file_error.h"
#include "kernels/base/whole_file.h"

namespace hearth {
namespace {

namespace fs = std::filesystem;
using file_error::with_commas;

constexpr uint32_t kNeurons = 1, kExperts = 2;  // versions
constexpr MeasurementFile kActivityFile{.magic = "HACT",
                                        .what = "an activity file",
                                        .first_version = kNeurons,
                                        .last_version = kExperts,
                                        .remedy = "; count again (hearth-profiler count)"};

void append_counts(MeasurementWriter& bytes, const ActivityCounts& counts) {
  bytes.number(counts.n_tokens);
  bytes.number(counts.n_pairs);
  if (counts.empty()) return;
  const auto d_ff = static_cast<size_t>(counts.d_ff);
  for (int layer = 0; layer < counts.n_layers; ++layer) {
    const size_t first = counts.index(layer, 0);
    bytes.numbers(std::span(counts.active).subspan(first, d_ff));
    bytes.numbers(std::span(counts.again).subspan(first, d_ff));
    bytes.numbers(std::span(counts.value_sums).subspan(first, d_ff));
  }
  for (const ExpertWindows& window : counts.windows) {
    if (!counts.of_experts()) continue;
    bytes.number(window.n);
    bytes.numbers(std::span(window.read));
  }
}

std::set<Sha256> read_texts(MeasurementReader& reader) {
  reader.enter("list of texts");
  std::set<Sha256> texts;
  const uint64_t n = reader.number(reader.remaining() / sizeof(Sha256), "texts");
  for (uint64_t i = 0; i < n; ++i) {
    const Sha256 hash = reader.hash();
    if (!texts.empty() && hash <= *texts.rbegin()) {
      reader.fail("is not in ascending order: the file was made wrong");
    }
    texts.insert(texts.end(), hash);
  }
  return texts;
}

std::vector<float> read_sizes(MeasurementReader& reader, const ModelIdentity& model) {
  reader.enter("sizes of the down columns");
  const size_t n = static_cast<size_t>(model.n_layers) * static_cast<size_t>(model.d_ff);
  const uint64_t most = model.n_experts > 0 ? 0 : 1;
  if (reader.number(most, "as what says whether they are there") == 0) return {};
  const std::span<const std::byte> bytes = reader.take(uint64_t{n} * sizeof(float));
  std::vector<float> sizes(n);
  std::memcpy(sizes.data(), bytes.data(), bytes.size());
  if (!std::ranges::all_of(sizes, [](float size) { return size >= 0 && std::isfinite(size); })) {
    reader.fail("are not all finite numbers from 0 on: the file was made wrong");
  }
  return sizes;
}

/// Parses, for each window size, the number of windows and the numbers in ExpertWindows::read.
void read_windows(MeasurementReader& reader, ActivityCounts& counts) {
  for (size_t i = 0; i < counts.windows.size(); ++i) {
    ExpertWindows& window = counts.windows[i];
    const auto size = static_cast<uint32_t>(ActivityCounts::kWindowTokens[i]);
    window.n = static_cast<uint32_t>(reader.number(counts.n_tokens / size, "windows of tokens"));
    const uint64_t most = uint64_t{window.n} * static_cast<uint64_t>(counts.d_ff);
    for (uint64_t& read : window.read) read = reader.number(most, "experts read by windows");
  }
}

ActivityCounts read_counts(MeasurementReader& reader, const ModelIdentity& model, ActivitySource source) {
  reader.enter(source_name(source));
  constexpr uint64_t kMostTokens = std::numeric_limits<uint32_t>::max();
  const auto n_tokens = static_cast<uint32_t>(reader.number(kMostTokens, "tokens"));
  const auto n_pairs = static_cast<uint32_t>(reader.number(n_tokens, "pairs of tokens"));
  if (n_tokens == 0) return {};
  const bool experts = model.n_experts > 0;
  const uint64_t n = static_cast<uint64_t>(model.n_layers) * static_cast<uint64_t>(model.n_units());
  // Check this before allocating memory for the counts: each unit takes at least three bytes.
  if (reader.remaining() / 3 < n) {
    reader.fail("end early: " + with_commas(reader.remaining()) + " bytes are left for " + with_commas(n) +
                (experts ? " experts" : " neurons"));
  }
  ActivityCounts counts(model.n_layers, model.n_units(), experts);
  counts.n_tokens = n_tokens;
  counts.n_pairs = n_pairs;
  for (int layer = 0; layer < model.n_layers; ++layer) {
    const size_t begin = counts.index(layer, 0), end = counts.index(layer + 1, 0);
    for (size_t i = begin; i < end; ++i) {
      counts.active[i] = static_cast<uint32_t>(reader.number(n_tokens, "times active"));
    }
    for (size_t i = begin; i < end; ++i) {
      const uint64_t most = std::min(counts.active[i], n_pairs);
      counts.again[i] = static_cast<uint32_t>(reader.number(most, "times active again"));
    }
    for (size_t i = begin; i < end; ++i) {
      const uint64_t most = uint64_t{counts.active[i]} << 31;  // each value: at most 2^15, in units of 2^-16
      counts.value_sums[i] = reader.number(most, "as a sum of values");
    }
  }
  if (experts) read_windows(reader, counts);
  return counts;
}

}  // namespace

std::string_view source_name(ActivitySource source) {
  constexpr std::array<std::string_view, kActivitySources> kNames = {"prompts", "generated", "served"};
  return kNames[static_cast<size_t>(source)];
}

uint64_t Activity::n_tokens() const {
  uint64_t n = 0;
  for (const ActivityCounts& source : counts) n += source.n_tokens;
  return n;
}

ActivityCounts Activity::total() const {
  ActivityCounts sum;
  for (const ActivityCounts& source : counts) sum.add(source);
  return sum;
}

std::vector<double> Activity::contributions() const {
  std::vector<double> mean;
  const ActivityCounts sum = total();
  if (sum.empty() || down_sizes.empty()) return mean;
  mean.reserve(down_sizes.size());
  for (size_t i = 0; i < down_sizes.size(); ++i) {
    const double values = static_cast<double>(sum.value_sums[i]) * ActivityCounts::kValueStep;
    mean.push_back(values / sum.n_tokens * double{down_sizes[i]});
  }
  return mean;
}

ActivityProfile Activity::profile() const {
  ActivityProfile profile;
  for (int layer = 0; layer < model.n_layers; ++layer) {
    std::vector<double>& of_layer = profile.counts.emplace_back(static_cast<size_t>(model.n_units()));
    for (const ActivityCounts& source : counts) {
      if (source.empty()) continue;
      for (size_t j = 0; j < of_layer.size(); ++j) of_layer[j] += source.active[source.index(layer, 0) + j];
    }
  }
  return profile;
}

void Activity::merge(const Activity& other) {
  if (const std::string why = other_model(other.model, model); !why.empty()) {
    throw std::runtime_error("the activity cannot be added: " + why + ".");
  }
  const auto has = [](const Activity& activity) {
    return [&activity](const Sha256& text) { return activity.texts.contains(text); };
  };
  const auto shared = std::ranges::find_if(other.texts, has(*this));
  const bool overlap = shared != other.texts.end();
  const bool has_theirs = overlap && std::ranges::all_of(other.texts, has(*this));
  const bool they_have = overlap && std::ranges::all_of(texts, has(other));
  if (overlap && !has_theirs && !they_have) {
    throw std::runtime_error("the activity cannot be added: the text " + hex_text(*shared) +
                             " is in both, and would be counted twice.");
  }
  Activity sum = *this;
  constexpr uint64_t kMostTokens = std::numeric_limits<uint32_t>::max();
  for (size_t i = 0; i < counts.size(); ++i) {
    const bool served = static_cast<ActivitySource>(i) == ActivitySource::kServed;
    if (!served && has_theirs) continue;
    if (!served && they_have) sum.counts[i] = {};
    if (uint64_t{sum.counts[i].n_tokens} + other.counts[i].n_tokens > kMostTokens) {
      throw std::runtime_error("the activity cannot be added: one file holds at most " +
                               with_commas(kMostTokens) + " tokens of a source.");
    }
    sum.counts[i].add(other.counts[i]);
  }
  counts = std::move(sum.counts);
  texts.insert(other.texts.begin(), other.texts.end());
  if (down_sizes.empty()) down_sizes = other.down_sizes;
}

Activity parse_activity(std::span<const std::byte> bytes, const std::string& file) {
  MeasurementReader reader(bytes, file, kActivityFile);
  Activity activity;
  activity.model = reader.model(reader.version() == kExperts);
  activity.texts = read_texts(reader);
  activity.down_sizes = read_sizes(reader, activity.model);
  for (size_t i = 0; i < kActivitySources; ++i) {
    activity.counts[i] = read_counts(reader, activity.model, static_cast<ActivitySource>(i));
  }
  reader.end();
  return activity;
}

Activity read_activity(const fs::path& path) {
  const gguf::MappedFile mapped = gguf::MappedFile::open(path, "an activity file");
  return parse_activity(mapped.bytes(), file_error::file_label(path.string()));
}

void require_same_model(const Activity& activity, const ModelIdentity& model, const std::string& file) {
  const std::string why = other_model(activity.model, model);
  if (!why.empty()) file_error::fail(file, why + std::string(kActivityFile.remedy));
}

std::vector<std::byte> activity_bytes(const Activity& activity) {
  const ModelIdentity& model = activity.model;
  MeasurementWriter bytes(kActivityFile, model.n_experts > 0 ? kExperts : kNeurons);
  bytes.model(model);
  bytes.number(activity.texts.size());
  for (const Sha256& text : activity.texts) bytes.raw(text.data(), text.size());
  bytes.number(activity.down_sizes.empty() ? 0 : 1);
  bytes.raw(activity.down_sizes.data(), activity.down_sizes.size() * sizeof(float));
  for (const ActivityCounts& source : activity.counts) append_counts(bytes, source);
  return std::move(bytes).finish();
}

std::string update_activity(const fs::path& path, const ModelIdentity& model,
                            const std::function<void(Activity& activity)>& change) {
  const FolderLock lock(folder_of(path));
  Activity activity;
  std::string sentence;
  std::error_code error;
  if (fs::exists(path, error)) {
    try {
      activity = read_activity(path);
      require_same_model(activity, model, file_error::file_label(path.string()));
    } catch (const ModelFileError& fault) {
      sentence = fault.what();
      activity = {};
    }
  }
  activity.model = model;
  change(activity);
  const std::vector<std::byte> bytes = activity_bytes(activity);
  if (!sentence.empty()) {
    fs::path old = path;
    old += ".old";
    fs::rename(path, old, error);
    sentence +=
        error ? "; counting starts over"
              : "; it is kept as " + file_error::file_label(old.string()) + ", and counting starts over";
  }
  write_whole_file(path, bytes);
  return sentence;
}

fs::path activity_path_beside(const fs::path& model_path) {
  fs::path path = model_path;
  path += ".activity";
  return path;
}

}  // namespace hearth
