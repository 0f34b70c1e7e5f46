// The activity file: what was counted of one model's neurons, kept from run to run.
//
//   "HACT", version (uint32), then the model: layers, d_model, d_ff (uint32 each), content hash (32 bytes),
//     activation and name (a length and so many bytes);
//   texts that went in: how many, SHA-256 of each, ascending;
//   sizes of the down columns: a byte 0 or 1, then float32 [n_layers, d_ff];
//   for each source: tokens, pairs, and if there are tokens for each layer the numbers [d_ff] of active, of
//     again, of value_sums (engine/activity/activity_counts.h);
//   SHA-256 of all that.
// Little-endian; lengths, counts and numbers that are not said to be wider are LEB128: most neurons take four
// or five bytes a source. Read by the engine when it loads a model, by the solver and the report; written by
// hearth-profiler count and by hearthd while it serves. Bytes are not trusted. Plain data; any thread.
#pragma once

#include <array>
#include <cstddef>
#include <filesystem>
#include <functional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/activity/activity_counts.h"
#include "engine/activity/activity_profile.h"
#include "engine/model/model_identity.h"
#include "engine/model/sha256.h"

namespace hearth {

/// Where counted tokens came from.
enum class ActivitySource : uint8_t {
  kPrompt,     // texts, as a prompt is read
  kGenerated,  // what the model itself went on with
  kServed,     // answers to whoever used the server
};
inline constexpr size_t kActivitySources = 3;
/// "prompts", "generated", "served".
std::string_view source_name(ActivitySource source);

struct Activity {
  ModelIdentity model;
  std::set<Sha256> texts;  // hashes of the texts that prompts and generated text came from
  /// [n_layers, d_ff] norms of the down columns; empty: not known. A neuron contributes its |value| times it.
  std::vector<float> down_sizes;
  std::array<ActivityCounts, kActivitySources> counts;  // empty, or of the model's shape

  const ActivityCounts& of(ActivitySource source) const { return counts[static_cast<size_t>(source)]; }
  ActivityCounts& of(ActivitySource source) { return counts[static_cast<size_t>(source)]; }
  uint64_t n_tokens() const;

  /// All sources together.
  ActivityCounts total() const;
  /// Mean contribution per token [n_layers, d_ff], |value| times the down column's norm; empty where sizes
  /// are not known.
  std::vector<double> contributions() const;
  /// For the order of neurons in memory: how often each was active, all sources together. Of a file of no
  /// tokens nothing but its word vouches for the model's size, so look at n_tokens() or the model first.
  ActivityProfile profile() const;

  /// Adds what others counted. Texts count once: where all of one's are the other's too, those of the one
  /// with more stand for both; served tokens are always added. Throws std::runtime_error (one sentence), and
  /// nothing was added: another model's; some texts in both, which would be counted twice; more tokens than a
  /// file holds.
  void merge(const Activity& other);
};

/// `bytes` is a whole file, `file` its gguf::file_label. Throws ModelFileError: no activity file, damaged, of
/// another version.
Activity parse_activity(std::span<const std::byte> bytes, const std::string& file);
Activity read_activity(const std::filesystem::path& path);

/// Throws ModelFileError if it is of another model; `file` as above.
void require_same_model(const Activity& activity, const ModelIdentity& model, const std::string& file);

std::vector<std::byte> activity_bytes(const Activity& activity);

/// Reads the file at `path`, lets `change` have it and writes it, with no other program's change in between.
/// One that is not there begins empty; one that is damaged or of another model is moved to <path>.old, and
/// what that was is the sentence returned (else empty). Throws as write_whole_file; what `change` throws
/// leaves the file as it was.
std::string update_activity(const std::filesystem::path& path, const ModelIdentity& model,
                            const std::function<void(Activity& activity)>& change);

/// Where a model's activity is looked for beside its file.
std::filesystem::path activity_path_beside(const std::filesystem::path& model_path);

}  // namespace hearth
