// The activity file: the counts of one model's neurons, or of a mixture's experts, kept from run to run.
//
//   "HACT", version (uint32), then the model: layers, d_model, d_ff (uint32 each), content hash (32 bytes),
//     activation and name (a length and so many bytes);
//   version 2 only, of mixtures: experts of a layer, which are what is counted. Version 1 counts neurons;
//   texts that went in: how many, SHA-256 of each, ascending;
//   sizes of the down columns: a byte 0 or 1, then float32 [n_layers, d_ff]; 0 in version 2;
//   for each source: tokens, pairs, and if there are tokens for each layer the numbers [d_ff, or experts] of active, of
//     again, of value_sums (engine/activity/activity_counts.h), and in version 2 for each size of windows how many there
//     were and the numbers [n_layers] of experts read;
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
#include "kernels/base/sha256.h"

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

  /// The sum over all sources.
  ActivityCounts total() const;
  /// Mean contribution per token [n_layers, d_ff], |value| times the down column's norm; empty where sizes
  /// are not known.
  std::vector<double> contributions() const;
  /// How often each neuron (of a mixture: expert) was active, over all sources, for the order in memory. Nothing in a
  /// file of no tokens proves the model's size, so check n_tokens() or the model first.
  ActivityProfile profile() const;

  /// Adds another file's counts. Texts count once: if one file's texts are all among the other's, the counts
  /// of the file with more texts stand for both. Served tokens are always added. Throws std::runtime_error
  /// (one sentence), and adds nothing, if the other file is another model's, if only some texts are in both
  /// (they would count twice), or if the tokens exceed what a file holds.
  void merge(const Activity& other);
};

/// Parses `bytes`, a whole file; `file` is its file_error::file_label. Throws ModelFileError if it is no activity
/// file, is damaged, or has another version.
Activity parse_activity(std::span<const std::byte> bytes, const std::string& file);
Activity read_activity(const std::filesystem::path& path);

/// Throws ModelFileError if it is of another model; `file` as above.
void require_same_model(const Activity& activity, const ModelIdentity& model, const std::string& file);

std::vector<std::byte> activity_bytes(const Activity& activity);

/// Reads the file at `path`, calls `change` with it and writes it back; no other program can change it in
/// between. A missing file starts empty. A file that is damaged or another model's is moved to <path>.old,
/// and the returned sentence says so (else it is empty). Throws as write_whole_file; if `change` throws, the
/// file stays unchanged.
std::string update_activity(const std::filesystem::path& path, const ModelIdentity& model,
                            const std::function<void(Activity& activity)>& change);

/// The path of a model's activity file, beside the model.
std::filesystem::path activity_path_beside(const std::filesystem::path& model_path);

}  // namespace hearth
