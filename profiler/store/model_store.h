// The folder of downloaded models. It contains plain GGUF files with readable names, which other programs can
// use.
//
//   OWNER/REPO/FILE.gguf               from the hub; the path below REPO is the path in the repository
//   HOST/FILE.gguf                     from a URL
//   .../.FILE.gguf.origin              JSON next to each file: its source and its checksum
//   .partial/OWNER/REPO/FILE.gguf      an unfinished file, with its state next to it
//
// GGUF files that a user puts into the folder are also models, but have no origin. Entries that cannot be
// read are skipped. Any thread may call these functions. A process that downloads a file locks it (PartFile).
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "config/environment.h"
#include "config/options.h"
#include "profiler/store/reference.h"

namespace hearth {

/// The source of a downloaded file.
struct ModelOrigin {
  std::string source;    // "hf:OWNER/REPO", or a URL without its query
  std::string revision;  // as in the request; empty for the default branch
  std::string commit;    // the hub's commit; empty if unknown or for a URL
  std::string file;      // path in the repository; empty for a URL
  std::string sha256;    // in lower case
  uint64_t size = 0;
  std::string pulled;  // for example "2026-11-26T10:00:00Z"
};

std::string origin_text(const ModelOrigin& origin);
/// Returns the origin, or nullopt if the text is malformed.
std::optional<ModelOrigin> parse_origin(std::string_view text);

/// A model in the store.
struct StoredModel {
  std::string name;                          // file name without .gguf and without part number
  std::vector<std::filesystem::path> parts;  // one file, or the existing parts of a split model
  int n_parts = 1;                           // number of parts of the complete model
  uint64_t bytes = 0;
  std::optional<ModelOrigin> origin;
  bool unfinished = false;   // whether a part is in .partial
  uint64_t bytes_there = 0;  // bytes present of an unfinished model

  bool complete() const { return !unfinished && static_cast<int>(parts.size()) == n_parts; }
  const std::filesystem::path& path() const { return parts.front(); }
};

class ModelStore {
 public:
  explicit ModelStore(std::filesystem::path folder) : folder_(std::move(folder)) {}

  const std::filesystem::path& folder() const { return folder_; }
  /// Return the path of a complete file (place_of) or of an unfinished file (partial_of). REQUIRES:
  /// is_safe_path(path).
  std::filesystem::path place_of(const HubReference& reference, const std::string& path) const;
  std::filesystem::path place_of(const UrlReference& reference) const;
  std::filesystem::path partial_of(const std::filesystem::path& place) const;

  /// Returns all models, ordered by path. with_unfinished: whether to include models in .partial.
  std::vector<StoredModel> list(bool with_unfinished) const;
  /// Returns the complete model for a reference, or nullopt if the store does not contain it. A hub reference
  /// matches models of its repository with the reference's revision, file and quantization; if several match,
  /// returns the model that a download would choose. Throws ReferenceError if a name matches several models.
  std::optional<StoredModel> find(const ModelReference& reference) const;
  /// Returns the models that the text names, including unfinished models. text: a model's name, its path
  /// below the folder, an hf: reference or a URL.
  std::vector<StoredModel> named(const std::string& text) const;

  void write_origin(const std::filesystem::path& place, const ModelOrigin& origin) const;
  std::optional<ModelOrigin> origin_of_file(const std::filesystem::path& place) const;
  /// Deletes the files of the model, the files next to them, and folders that become empty. Throws PullError.
  void remove(const StoredModel& model) const;

 private:
  std::filesystem::path folder_;
};

/// Opens the folder of --models, or `models` in the cache folder. Throws ReferenceError if neither is known.
ModelStore model_store(const Options& options, const Environment& environment);

}  // namespace hearth
