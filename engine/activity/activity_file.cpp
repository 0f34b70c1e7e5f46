// See the header. Bytes are read in two steps: the checksum detects damage; the checks after it detect files
// that were written incorrectly.
#include "engine/activity/activity_file.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <cstring>
#include <limits>
#include <optional>
#include <stdexcept>
#include <system_error>

#include "engine/model/gguf/cursor.h"
#include "engine/model/gguf/mapped_file.h"
#include "kernels/base/file_error.h"
#include "kernels/base/whole_file.h"

namespace hearth {
namespace {

namespace fs = std::filesystem;
using file_error::with_commas;
using gguf::Cursor;

constexpr std::string_view kMagic = "HACT";
constexpr uint32_t kNeurons = 1, kExperts = 2;                   // versions
constexpr uint32_t kMaxLayers = 1u << 14, kMaxWidth = 1u << 24;  // far above any model's
constexpr uint32_t kMaxExperts = 1u << 16;
constexpr uint64_t kMaxText = 1024;  // bytes of a name
constexpr const char* kAgain = "; count again (hearth-profiler count)";

// -- writing --

class Bytes {
 public:
  std::vector<std::byte> out;

  void raw(const void* data, size_t n) {
    const auto* bytes = static_cast<const std::byte*>(data);
    out.insert(out.end(), bytes, bytes + n);
  }
  void fixed(uint32_t number) { raw(&number, sizeof number); }
  void number(uint64_t n) {
    for (; n >= 128; n >>= 7) out.push_back(static_cast<std::byte>(n | 128));
    out.push_back(static_cast<std::byte>(n));
  }
  void text(std::string_view text) {
    number(text.size());
    raw(text.data(), text.size());
  }
  template <class T>
  void numbers(const std::vector<T>& all, size_t begin, size_t n) {
    for (size_t i = begin; i < begin + n; ++i) number(all[i]);
  }
};

void append_counts(Bytes& bytes, const ActivityCounts& counts) {
  bytes.number(counts.n_tokens);
  bytes.number(counts.n_pairs);
  if (counts.empty()) return;
  const auto d_ff = static_cast<size_t>(counts.d_ff);
  for (int layer = 0; layer < counts.n_layers; ++layer) {
    const size_t first = counts.index(layer, 0);
    bytes.numbers(counts.active, first, d_ff);
    bytes.numbers(counts.again, first, d_ff);
    bytes.numbers(counts.value_sums, first, d_ff);
  }
  for (const ExpertWindows& window : counts.windows) {
    if (!counts.of_experts()) continue;
    bytes.number(window.n);
    bytes.numbers(window.read, 0, window.read.size());
  }
}

// -- reading --

uint64_t read_number(Cursor& cursor) {
  uint64_t number = 0;
  for (int shift = 0; shift < 64; shift += 7) {
    const auto byte = cursor.read<uint8_t>();
    const uint64_t bits = byte & 127;
    if (shift == 63 && bits > 1) break;
    number |= bits << shift;
    if (byte < 128) return number;
  }
  cursor.fail("holds a number of more than 64 bits: the file is damaged" + std::string(kAgain));
}

/// Reads a number that is at most `most`; `what` names it in messages.
uint64_t read_number(Cursor& cursor, uint64_t most, std::string_view what) {
  const uint64_t number = read_number(cursor);
  if (number > most) {
    cursor.fail("says " + with_commas(number) + " " + std::string(what) + ", expected at most " +
                with_commas(most) + kAgain);
  }
  return number;
}

std::string read_text(Cursor& cursor) {
  const std::span<const std::byte> bytes = cursor.take(read_number(cursor, kMaxText, "bytes of text"));
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

Sha256 read_hash(Cursor& cursor) {
  Sha256 hash;
  std::memcpy(hash.data(), cursor.take(hash.size()).data(), hash.size());
  return hash;
}

int read_size(Cursor& cursor, uint32_t most, std::string_view what) {
  const auto size = cursor.read<uint32_t>();
  if (size < 1 || size > most) {
    cursor.fail("says " + with_commas(size) + " " + std::string(what) + ", expected 1 to " +
                with_commas(most) + kAgain);
  }
  return static_cast<int>(size);
}

ModelIdentity read_model(Cursor& cursor, uint32_t version) {
  ModelIdentity model;
  model.n_layers = read_size(cursor, kMaxLayers, "layers");
  model.d_model = read_size(cursor, kMaxWidth, "numbers of a layer's input");
  model.d_ff = read_size(cursor, kMaxWidth, "neurons of a layer");
  model.content = read_hash(cursor);
  model.activation = read_text(cursor);
  model.name = read_text(cursor);
  if (version == kExperts) {
    model.n_experts = static_cast<int>(read_number(cursor, kMaxExperts, "experts of a layer"));
    if (model.n_experts == 0) {
      cursor.fail("says 0 experts of a layer, expected 1 to " + with_commas(kMaxExperts) + kAgain);
    }
  }
  return model;
}

std::set<Sha256> read_texts(Cursor& cursor) {
  cursor.enter("list of texts");
  std::set<Sha256> texts;
  const uint64_t n = read_number(cursor, cursor.remaining() / sizeof(Sha256), "texts");
  for (uint64_t i = 0; i < n; ++i) {
    const Sha256 hash = read_hash(cursor);
    if (!texts.empty() && hash <= *texts.rbegin()) {
      cursor.fail("is not in ascending order: the file was made wrong" + std::string(kAgain));
    }
    texts.insert(texts.end(), hash);
  }
  return texts;
}

std::vector<float> read_sizes(Cursor& cursor, const ModelIdentity& model) {
  cursor.enter("sizes of the down columns");
  const size_t n = static_cast<size_t>(model.n_layers) * static_cast<size_t>(model.d_ff);
  const uint64_t most = model.n_experts > 0 ? 0 : 1;
  if (read_number(cursor, most, "as what says whether they are there") == 0) return {};
  const std::span<const std::byte> bytes = cursor.take(uint64_t{n} * sizeof(float));
  std::vector<float> sizes(n);
  std::memcpy(sizes.data(), bytes.data(), bytes.size());
  if (!std::ranges::all_of(sizes, [](float size) { return size >= 0 && std::isfinite(size); })) {
    cursor.fail("are not all finite numbers from 0 on: the file was made wrong" + std::string(kAgain));
  }
  return sizes;
}

/// Reads how many experts windows of tokens read.
void read_windows(Cursor& cursor, ActivityCounts& counts) {
  for (size_t i = 0; i < counts.windows.size(); ++i) {
    ExpertWindows& window = counts.windows[i];
    const auto size = static_cast<uint32_t>(ActivityCounts::kWindowTokens[i]);
    window.n = static_cast<uint32_t>(read_number(cursor, counts.n_tokens / size, "windows of tokens"));
    const uint64_t most = uint64_t{window.n} * static_cast<uint64_t>(counts.d_ff);
    for (uint64_t& read : window.read) read = read_number(cursor, most, "experts read by windows");
  }
}

ActivityCounts read_counts(Cursor& cursor, const ModelIdentity& model, ActivitySource source) {
  cursor.enter(source_name(source));
  constexpr uint64_t kMostTokens = std::numeric_limits<uint32_t>::max();
  const auto n_tokens = static_cast<uint32_t>(read_number(cursor, kMostTokens, "tokens"));
  const auto n_pairs = static_cast<uint32_t>(read_number(cursor, n_tokens, "pairs of tokens"));
  if (n_tokens == 0) return {};
  const bool experts = model.n_experts > 0;
  const uint64_t n = static_cast<uint64_t>(model.n_layers) * static_cast<uint64_t>(model.n_units());
  // Checked before memory for the counts is allocated: each unit takes at least three bytes.
  if (cursor.remaining() / 3 < n) {
    cursor.fail("end early: " + with_commas(cursor.remaining()) + " bytes are left for " + with_commas(n) +
                (experts ? " experts" : " neurons") + kAgain);
  }
  ActivityCounts counts(model.n_layers, model.n_units(), experts);
  counts.n_tokens = n_tokens;
  counts.n_pairs = n_pairs;
  for (int layer = 0; layer < model.n_layers; ++layer) {
    const size_t begin = counts.index(layer, 0), end = counts.index(layer + 1, 0);
    for (size_t i = begin; i < end; ++i) {
      counts.active[i] = static_cast<uint32_t>(read_number(cursor, n_tokens, "times active"));
    }
    for (size_t i = begin; i < end; ++i) {
      const uint64_t most = std::min(counts.active[i], n_pairs);
      counts.again[i] = static_cast<uint32_t>(read_number(cursor, most, "times active again"));
    }
    for (size_t i = begin; i < end; ++i) {
      const uint64_t most = uint64_t{counts.active[i]} << 31;  // 2^15 each, in steps of 2^-16
      counts.value_sums[i] = read_number(cursor, most, "as a sum of values");
    }
  }
  if (experts) read_windows(cursor, counts);
  return counts;
}

/// Checks magic, version and checksum; returns everything but the checksum.
std::span<const std::byte> checked_body(std::span<const std::byte> bytes, const std::string& file) {
  const std::string_view head(reinterpret_cast<const char*>(bytes.data()),
                              std::min(bytes.size(), kMagic.size()));
  if (head != kMagic) {
    file_error::fail(file, "it begins with " + file_error::quoted(head) +
                               ", expected \"HACT\": it is not an activity file" + std::string(kAgain));
  }
  uint32_t version = 0;
  if (bytes.size() >= kMagic.size() + sizeof version) {
    std::memcpy(&version, bytes.data() + kMagic.size(), sizeof version);
    if (version != kNeurons && version != kExperts) {
      file_error::fail(file, "it is of version " + with_commas(version) + ", expected " +
                                 with_commas(kNeurons) + " or " + with_commas(kExperts) +
                                 std::string(kAgain));
    }
  }
  const size_t n = bytes.size() - std::min(bytes.size(), sizeof(Sha256));
  const Sha256 sum = sha256(bytes.first(n));
  if (bytes.size() < sizeof(Sha256) || std::memcmp(sum.data(), bytes.data() + n, sum.size()) != 0) {
    file_error::fail(file, "its checksum is not that of its " + with_commas(bytes.size()) +
                               " bytes: it is damaged or was cut short" + kAgain);
  }
  return bytes.first(n);
}

/// Returns why the two files belong to different models; empty: they do not.
std::string difference(const ModelIdentity& a, const ModelIdentity& b) {
  if (a.same_model(b)) return {};
  const auto text = [](const ModelIdentity& model) {
    return file_error::quoted(model.name) + " (" + std::to_string(model.n_layers) + " layers of " +
           with_commas(static_cast<uint64_t>(model.n_units())) +
           (model.n_experts > 0 ? " experts, " : " neurons, ") + file_error::quoted(model.activation) + ", " +
           hex_text(model.content).substr(0, 12) + ")";
  };
  return "it is of another model: " + text(a) + ", expected " + text(b);
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
  if (const std::string why = difference(other.model, model); !why.empty()) {
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
  uint32_t version = 0;
  Cursor cursor(checked_body(bytes, file), file, kMagic.size() + sizeof version);
  std::memcpy(&version, bytes.data() + kMagic.size(), sizeof version);
  Activity activity;
  activity.model = read_model(cursor, version);
  activity.texts = read_texts(cursor);
  activity.down_sizes = read_sizes(cursor, activity.model);
  for (size_t i = 0; i < kActivitySources; ++i) {
    activity.counts[i] = read_counts(cursor, activity.model, static_cast<ActivitySource>(i));
  }
  if (cursor.remaining() != 0) {
    cursor.enter("end");
    cursor.fail("is followed by " + with_commas(cursor.remaining()) + " bytes: the file was made wrong" +
                kAgain);
  }
  return activity;
}

Activity read_activity(const fs::path& path) {
  const gguf::MappedFile mapped = gguf::MappedFile::open(path, "an activity file");
  return parse_activity(mapped.bytes(), file_error::file_label(path.string()));
}

void require_same_model(const Activity& activity, const ModelIdentity& model, const std::string& file) {
  const std::string why = difference(activity.model, model);
  if (!why.empty()) file_error::fail(file, why + kAgain);
}

std::vector<std::byte> activity_bytes(const Activity& activity) {
  Bytes bytes;
  bytes.raw(kMagic.data(), kMagic.size());
  const ModelIdentity& model = activity.model;
  bytes.fixed(model.n_experts > 0 ? kExperts : kNeurons);
  bytes.fixed(static_cast<uint32_t>(model.n_layers));
  bytes.fixed(static_cast<uint32_t>(model.d_model));
  bytes.fixed(static_cast<uint32_t>(model.d_ff));
  bytes.raw(model.content.data(), model.content.size());
  bytes.text(model.activation);
  bytes.text(model.name);
  if (model.n_experts > 0) bytes.number(static_cast<uint64_t>(model.n_experts));
  bytes.number(activity.texts.size());
  for (const Sha256& text : activity.texts) bytes.raw(text.data(), text.size());
  bytes.number(activity.down_sizes.empty() ? 0 : 1);
  bytes.raw(activity.down_sizes.data(), activity.down_sizes.size() * sizeof(float));
  for (const ActivityCounts& source : activity.counts) append_counts(bytes, source);
  const Sha256 sum = sha256(bytes.out);
  bytes.raw(sum.data(), sum.size());
  return std::move(bytes.out);
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
