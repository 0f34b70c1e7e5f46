// Texts to run through a model, one after the other: the prompts that are built in, and files of the user's
// of any size, cut into windows as they are read.
//
// Each source gives one text in turn, so that the first few are a fair sample of all. One thread.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "profiler/activity/text_input.h"

namespace hearth {

/// A text file as windows of some kWindowBytes, which end at the end of a line or a word where there is one
/// in their second half, and never within a character.
class TextFile {
 public:
  static constexpr size_t kWindowBytes = 1536;  // 300 to 500 tokens of most languages

  /// Throws std::runtime_error (one sentence): it cannot be read, is empty, or its beginning is no UTF-8
  /// text.
  explicit TextFile(const std::filesystem::path& path);

  /// nullopt at the end. Throws std::runtime_error (one sentence) where it is no UTF-8 text.
  std::optional<std::string> next();

  uint64_t bytes() const { return in_.size(); }  // 0: not known
  uint64_t bytes_read() const { return at_; }

 private:
  void fill();

  TextInput in_;
  std::string ahead_;  // read, not given out yet
  uint64_t at_ = 0;
};

class TextFeed {
 public:
  /// Throws as TextFile.
  TextFeed(std::vector<std::string> prompts, const std::vector<std::filesystem::path>& files);

  /// nullopt at the end. Throws as TextFile::next().
  std::optional<std::string> next();

  /// Share of all bytes given out, in [0, 1].
  double done() const;

 private:
  std::vector<std::string> prompts_;
  size_t next_prompt_ = 0;
  uint64_t prompt_bytes_ = 0, prompt_bytes_done_ = 0;
  std::vector<std::unique_ptr<TextFile>> files_;
  size_t turn_ = 0;  // 0: the prompts', 1 + i: file i's
};

/// Where bytes stop being UTF-8 text (RFC 3629, and no NUL): that place, or npos.
size_t find_no_text(const std::string& bytes);

}  // namespace hearth
