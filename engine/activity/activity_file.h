// The activity file: the counts of one model's neurons, or of a mixture's experts, kept from run to run.
//
// Its contents are, in this order:
//   "HACT", version (uint32), then the model: layers, d_model, d_ff (uint32 each), content hash (32 bytes),
//     activation and name (a length and that many bytes);
//   version 2 only, for mixtures: experts per layer. Version 2 counts experts, version 1 counts neurons;
//   the texts that were counted: their number, then the SHA-256 of each, ascending;
//   a byte: 1 if Activity::down_sizes follows, as float32 [n_layers, d_ff]; always 0 in version 2;
//   for each source: the number of tokens, and the number of tokens whose predecessor was counted too
//     (ActivityCounts::n_pairs). If there are tokens, these follow (engine/activity/activity_counts.h):
//     - for each layer, the arrays `active`, `again` and `value_sums` [d_ff or experts];
//     - version 2 only, for each window size, the number of windows and ExpertWindows::read [n_layers];
//   SHA-256 of all bytes before it.
// Little-endian. Lengths, counts and numbers without a stated width are LEB128: most neurons take four or
// five bytes per source. The engine reads the file at load, and so do placement and hearth-profiler report.
// hearth-profiler count writes it, and so does hearthd while it serves. Bytes are not trusted. Plain data;
// any thread.
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

/// The origin of counted tokens.
enum class ActivitySource : uint8_t {
  kPrompt,     // texts, read as prompts
  kGenerated,  // the model's own continuations
  kServed,     // answers to the server's clients
};
inline constexpr size_t kActivitySources = 3;
/// "prompts", "generated", "served".
std::string_view source_name(ActivitySource source);

struct Activity {
  ModelIdentity model;
  std::set<Sha256> texts;  // hashes of the texts that prompts and generated tokens come from
  /// [n_layers, d_ff] norm of each neuron's column of the down projection; empty if unknown. The size of a
  /// neuron's contribution is |value| times this norm.
  std::vector<float> down_sizes;
  std::array<ActivityCounts, kActivitySources> counts;  // each empty or of the model's shape

  const ActivityCounts& of(ActivitySource source) const { return counts[static_cast<size_t>(source)]; }
  ActivityCounts& of(ActivitySource source) { return counts[static_cast<size_t>(source)]; }
  uint64_t n_tokens() const;

  /// The sum over all sources.
  ActivityCounts total() const;
  /// Mean contribution per token [n_layers, d_ff], |value| times the down column's norm; empty if sizes are
  /// unknown.
  std::vector<double> contributions() const;
  /// Returns how often each neuron (or expert of a mixture) was active, summed over all sources. Used to
  /// order neurons in memory. REQUIRES: n_tokens() is not 0, or the caller has checked `model`. In a damaged
  /// file without tokens, the sizes in `model` may be so large that this function would allocate too much
  /// memory.
  ActivityProfile profile() const;

  /// Adds another file's counts. A text counts only once: if the texts of one file are a subset of the
  /// other's, only the counts of the file with more texts are kept. Served tokens are always added. Throws
  /// std::runtime_error (one sentence), and adds nothing, if the other file belongs to another model, if the
  /// texts overlap only partly (they would count twice), or if the tokens exceed a file's limit.
  void merge(const Activity& other);
};

/// Parses `bytes`, a whole file. file: its name for messages (file_error::file_label()). Throws
/// ModelFileError if the bytes are not an activity file, are damaged, or have another version.
Activity parse_activity(std::span<const std::byte> bytes, const std::string& file);
Activity read_activity(const std::filesystem::path& path);

/// Throws ModelFileError if `activity` belongs to another model. file: the activity file's name for messages
/// (file_error::file_label()).
void require_same_model(const Activity& activity, const ModelIdentity& model, const std::string& file);

std::vector<std::byte> activity_bytes(const Activity& activity);

/// Reads the file at `path`, calls `change` with it and writes it back. No other program can change the file
/// in between. If the file is missing, starts with an empty one. If it is damaged or belongs to another
/// model, moves it to <path>.old and returns a sentence about this; otherwise the returned string is empty.
/// Throws like write_whole_file; if `change` throws, the file stays unchanged.
std::string update_activity(const std::filesystem::path& path, const ModelIdentity& model,
                            const std::function<void(Activity& activity)>& change);

/// The path of a model's activity file, beside the model.
std::filesystem::path activity_path_beside(const std::filesystem::path& model_path);

}  // namespace hearth
