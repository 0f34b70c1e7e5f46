// The folder of pulled models: plain GGUF files under readable names, so that other programs can read them too.
//
//   OWNER/REPO/FILE.gguf               from the hub; the path below REPO is the repository's
//   HOST/FILE.gguf                     from a URL
//   .../.FILE.gguf.origin              JSON beside each: where it came from, its checksum
//   .partial/OWNER/REPO/FILE.gguf      unfinished; the file's state is beside it
//
// Files that a user puts there are models too: they have no origin. Reading never fails for what lies about: what cannot be
// read is left out. Any thread; programs that pull lock the file that they write (server/models/part_file.h).
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "config/environment.h"
#include "config/options.h"
#include "server/models/reference.h"

namespace hearth {

/// Where a file came from.
struct ModelOrigin {
  std::string source;    // "hf:OWNER/REPO", or a URL without its query
  std::string revision;  // as it was asked for; empty: the default branch
  std::string commit;    // of the hub; empty: unknown, or from a URL
  std::string file;      // path in the repository; empty: from a URL
  std::string sha256;    // lower case
  uint64_t size = 0;
  std::string pulled;  // "2026-11-26T10:00:00Z"
};

std::string origin_text(const ModelOrigin& origin);
/// nullopt: it is no such text.
std::optional<ModelOrigin> parse_origin(std::string_view text);

/// A model of the store.
struct StoredModel {
  std::string name;                          // of its file, without .gguf and a split's number
  std::vector<std::filesystem::path> parts;  // one, or all of a split model that are there
  int n_parts = 1;                           // that it should have
  uint64_t bytes = 0;
  std::optional<ModelOrigin> origin;
  bool unfinished = false;   // parts lie in .partial
  uint64_t bytes_there = 0;  // of an unfinished one

  bool complete() const { return !unfinished && static_cast<int>(parts.size()) == n_parts; }
  const std::filesystem::path& path() const { return parts.front(); }
};

class ModelStore {
 public:
  explicit ModelStore(std::filesystem::path folder) : folder_(std::move(folder)) {}

  const std::filesystem::path& folder() const { return folder_; }
  /// Where a file goes, and where it lies until it is whole. path: is_safe_path().
  std::filesystem::path place_of(const HubReference& reference, const std::string& path) const;
  std::filesystem::path place_of(const UrlReference& reference) const;
  std::filesystem::path partial_of(const std::filesystem::path& place) const;

  /// All models, by path. with_unfinished: what lies in .partial too.
  std::vector<StoredModel> list(bool with_unfinished) const;
  /// The complete model that a reference means; nullopt: it is not here. Of a hub reference: of the repository, and of the
  /// revision, file and quantisation if it names them; of several the one that a pull would choose. Throws ReferenceError
  /// if a name fits several.
  std::optional<StoredModel> find(const ModelReference& reference) const;
  /// The models, unfinished ones too, whose name or path below the folder this is, or which an hf: reference or URL means.
  std::vector<StoredModel> named(const std::string& text) const;

  void write_origin(const std::filesystem::path& place, const ModelOrigin& origin) const;
  std::optional<ModelOrigin> origin_of_file(const std::filesystem::path& place) const;
  /// Deletes its files, what lies beside them, and folders that are empty then. Throws PullError.
  void remove(const StoredModel& model) const;

 private:
  std::filesystem::path folder_;
};

/// --models, else models in the cache folder. Throws ReferenceError if there is neither.
ModelStore model_store(const Options& options, const Environment& environment);

}  // namespace hearth
