// A model's folder in the form of Hugging Face's libraries: config.json, safetensors files, the tokenizer's
// files.
//
// Opened once by convert_checkpoint(); constant after that. Small files are read whole, tensors are mapped.
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
  /// Throws std::runtime_error (one sentence) if the folder has no config.json, a file of the index is
  /// missing, the index and the files disagree, or a file is damaged.
  explicit Checkpoint(std::filesystem::path folder);
  ~Checkpoint();
  Checkpoint(const Checkpoint&) = delete;
  Checkpoint& operator=(const Checkpoint&) = delete;

  const std::filesystem::path& folder() const { return folder_; }
  /// The folder's name, with which messages begin.
  const std::string& label() const { return label_; }

  /// config.json.
  const nlohmann::json& config() const;
  /// Another JSON file of the folder, or a JSON null if there is none. Throws std::runtime_error if it is
  /// damaged.
  nlohmann::json read_json(std::string_view name) const;
  /// Another file's bytes; empty if there is none.
  std::string read_file(std::string_view name) const;

  /// All tensors, file by file, in the order of their bytes.
  const std::vector<StoredTensor>& tensors() const;
  /// The tensor of this name, or null if there is none.
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
