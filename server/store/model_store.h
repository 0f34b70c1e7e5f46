// The folder of pulled models: plain GGUF files with readable names, which other programs can use too.
//
//   OWNER/REPO/FILE.gguf               from the hub; the path below REPO is the path in the repository
//   HOST/FILE.gguf                     from a URL
//   .../.FILE.gguf.origin              JSON beside each file: its source and its checksum
//   .partial/OWNER/REPO/FILE.gguf      an unfinished file, with its state beside it
//
// Files that a user puts into the folder are models too, but without an origin. Reading never fails: entries
// that cannot be read are skipped. Any thread. Programs that pull a file lock it (server/store/part_file.h).
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "config/environment.h"
#include "config/options.h"
#include "server/store/reference.h"

namespace hearth {

/// The source of a file.
struct ModelOrigin {
  std::string source;    // "hf:OWNER/REPO", or a URL without its query
  std::string revision;  // as requested; empty for the default branch
  std::string commit;    // the hub's commit; empty if unknown or from a URL
  std::string file;      // path in the repository; empty if from a URL
  std::string sha256;    // in lower case
  uint64_t size = 0;
  std::string pulled;  // "2026-11-26T10:00:00Z"
};

std::string origin_text(const ModelOrigin& origin);
/// Returns nullopt if the text is malformed.
std::optional<ModelOrigin> parse_origin(std::string_view text);

/// A model in the store.
struct StoredModel {
  std::string name;                          // file name without .gguf and without the part number
  std::vector<std::filesystem::path> parts;  // one file, or all existing parts of a split model
  int n_parts = 1;                           // number of parts of the complete model
  uint64_t bytes = 0;
  std::optional<ModelOrigin> origin;
  bool unfinished = false;   // whether any part is in .partial
  uint64_t bytes_there = 0;  // if unfinished, the bytes present

  bool complete() const { return !unfinished && static_cast<int>(parts.size()) == n_parts; }
  const std::filesystem::path& path() const { return parts.front(); }
};

class ModelStore {
 public:
  explicit ModelStore(std::filesystem::path folder) : folder_(std::move(folder)) {}

  const std::filesystem::path& folder() const { return folder_; }
  /// Returns the final path of a file, or its path while it is unfinished. REQUIRES: is_safe_path(path).
  std::filesystem::path place_of(const HubReference& reference, const std::string& path) const;
  std::filesystem::path place_of(const UrlReference& reference) const;
  std::filesystem::path partial_of(const std::filesystem::path& place) const;

  /// Returns all models, ordered by path. with_unfinished: includes models in .partial.
  std::vector<StoredModel> list(bool with_unfinished) const;
  /// Returns the complete model for a reference, or nullopt if it is not in the store. A hub reference
  /// matches models of its repository that have the revision, file and quantization it gives. If there are
  /// several, returns the one that a pull would choose. Throws ReferenceError if a name matches several
  /// models.
  std::optional<StoredModel> find(const ModelReference& reference) const;
  /// Returns the models that the text names, including unfinished ones. The text is a model's name, its path
  /// below the folder, an hf: reference or a URL.
  std::vector<StoredModel> named(const std::string& text) const;

  void write_origin(const std::filesystem::path& place, const ModelOrigin& origin) const;
  std::optional<ModelOrigin> origin_of_file(const std::filesystem::path& place) const;
  /// Deletes the model's files, the files beside them, and folders that become empty as a result. Throws
  /// PullError.
  void remove(const StoredModel& model) const;

 private:
  std::filesystem::path folder_;
};

/// Opens the folder of --models, or `models` in the cache folder. Throws ReferenceError if neither is known.
ModelStore model_store(const Options& options, const Environment& environment);

}  // namespace hearth
