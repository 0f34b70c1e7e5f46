// A model's folder as Hugging Face's libraries write it: config.json, safetensors files and the tokenizer's
// files.
//
// convert_checkpoint() opens the folder once, and it does not change after that. Small files are read whole,
// and files with tensors are mapped into memory.
#pragma once

#include <filesystem>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "profiler/convert/safetensors.h"

namespace hearth::convert {

class Checkpoint {
 public:
  /// Throws std::runtime_error (one sentence) if the folder has no config.json, a file that the index lists
  /// is missing, the index and the files disagree, or a file is damaged.
  explicit Checkpoint(std::filesystem::path folder);
  ~Checkpoint();
  Checkpoint(const Checkpoint&) = delete;
  Checkpoint& operator=(const Checkpoint&) = delete;

  const std::filesystem::path& folder() const { return folder_; }
  /// The folder's name, with which messages begin.
  const std::string& label() const { return label_; }

  /// The parsed config.json.
  const nlohmann::json& config() const;
  /// Returns the contents of the JSON file with this name, or a JSON null if the folder has no such file.
  /// Throws std::runtime_error if the file is damaged.
  nlohmann::json read_json(std::string_view name) const;
  /// Returns the bytes of the file with this name; empty if the folder has no such file.
  std::string read_file(std::string_view name) const;

  /// All tensors, file by file, ordered by position within each file.
  const std::vector<StoredTensor>& tensors() const;
  /// Returns the tensor of this name, or null if there is none.
  const StoredTensor* find(std::string_view name) const;

  /// Throws std::runtime_error with "FOLDER: sentence".
  [[noreturn]] void fail(const std::string& sentence) const;

 private:
  struct Contents;
  std::filesystem::path folder_;
  std::string label_;
  std::unique_ptr<Contents> contents_;
};

}  // namespace hearth::convert
