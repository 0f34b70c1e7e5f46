// Reads the keys of a model file that begin with its architecture's name, with the checks that every key
// needs, and the limits on their values. Used by the readers of ModelSpec and its parts.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/model/model_file.h"

namespace hearth {

/// The keys "ARCHITECTURE.KEY" of one file; all names below are the KEY. The functions throw ModelFileError
/// if a key has another type or is out of range; those without a fallback also throw if it is absent. The
/// file must outlive this object.
class SpecKeys {
 public:
  // No model comes near these limits; a file beyond them is damaged, and sizes computed from it would be
  // absurd. Together, the limits keep every product of a spec's numbers within an int; products with n_vocab
  // stay within an int64_t.
  static constexpr int64_t kMaxLayers = 1024;
  static constexpr int64_t kMaxWidth = 1 << 20;
  static constexpr int64_t kMaxHeads = 4096;
  static constexpr int64_t kMaxHeadDim = 1024;
  static constexpr int64_t kMaxContext = 1 << 24;

  SpecKeys(const ModelFile& file, std::string_view architecture)
      : file_(file), prefix_(std::string(architecture) + ".") {}

  int integer(const std::string& key, int64_t low, int64_t high) const;
  /// The fallback is not checked.
  int integer_or(const std::string& key, int64_t fallback, int64_t low, int64_t high) const;
  double number(const std::string& key, double low, double high) const;
  double number_or(const std::string& key, double fallback, double low, double high) const;
  /// Reads an array of integers or truth values; nullopt if the key is absent.
  std::optional<std::vector<int64_t>> integers(const std::string& key) const;
  /// Reads an array with one number per layer; nullopt if the key is absent or not an array. The array may
  /// have n_more further numbers, of layers that are not run.
  std::optional<std::vector<int64_t>> of_layers(const std::string& key, int n_layers, int n_more = 0) const;
  /// Reads a number that all layers share. It may be an array with one value for each of n_blocks layers;
  /// refuses an array whose first n_layers values differ.
  int shared_integer(const std::string& key, int n_layers, int n_blocks, int64_t low, int64_t high) const;
  bool truth_or(const std::string& key, bool fallback) const;
  std::string text_or(const std::string& key, std::string_view fallback) const;
  bool has(const std::string& key) const { return file_.has_key(prefix_ + key); }

  const ModelFile& file() const { return file_; }
  std::string file_label() const;
  /// Refuses a file with a feature that Hearth lacks, although Hearth runs other files of the architecture.
  [[noreturn]] void refuse(const std::string& key, const std::string& found, const std::string& why) const;
  /// Refuses a damaged file.
  [[noreturn]] void fail(const std::string& key, const std::string& found, const std::string& expected) const;

 private:
  double check(const std::string& key, double value, double low, double high) const;
  int check(const std::string& key, int64_t value, int64_t low, int64_t high) const;

  const ModelFile& file_;
  std::string prefix_;
};

}  // namespace hearth
