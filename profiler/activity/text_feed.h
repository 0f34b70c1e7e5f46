// Provides the texts that are run through a model: built-in prompts, and the user's files of any size. A file
// is read completely, in samples, or in windows.
//
// A TextFeed takes one text from each source in turn, so its first few texts are a fair sample of all texts.
// The built-in prompts are profiler/activity/prompts/*.txt and contain the kinds of text that users send to
// models: chat, prose, code, lists, tables, several languages. One thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace hearth {

class TextInput {
 public:
  /// `remedy` ends each error message, for example "give --text another file". The constructor and all
  /// members throw std::runtime_error (one sentence) if the path is a folder or cannot be read.
  TextInput(const std::filesystem::path& path, std::string remedy);

  /// The size of a regular file in bytes; 0 if the input has no size, for example a pipe.
  uint64_t size() const { return size_; }
  void seek(uint64_t at);

  /// Returns the next `most` bytes; fewer only at the end of the file.
  std::string read(size_t most);
  bool at_end() const { return !in_; }

  /// Throws std::runtime_error: "<the file>: <what>; <remedy>."
  [[noreturn]] void refuse(std::string_view what) const;

 private:
  std::string label_, remedy_;
  std::ifstream in_;
  uint64_t size_ = 0;
};

/// The contents of the built-in prompt files, ordered by file name.
std::span<const std::string_view> prompt_files();

/// Returns the contents of the file with held-out prompts. These prompts are never counted, so they can test
/// what was learned from the counts.
std::string_view held_out_file();

/// Splits a file at lines that consist of "%%". Removes line breaks before these lines and at the end of the
/// file, and drops empty texts.
std::vector<std::string> split_prompts(std::string_view file);

/// All built-in prompts, taken from each file in turn, so that the first few prompts are already a fair
/// sample.
std::vector<std::string> built_in_prompts();
/// The prompts of the held-out file.
std::vector<std::string> held_out_prompts();

/// Reads a text file in windows of about kWindowBytes. A window ends after a line or a word if one ends in
/// the window's second half. It never splits a character.
class TextFile {
 public:
  static constexpr size_t kWindowBytes = 1536;  // 300 to 500 tokens of most languages

  /// Throws std::runtime_error (one sentence) if the file cannot be read, is empty, or does not begin with
  /// UTF-8 text.
  explicit TextFile(const std::filesystem::path& path);

  /// Returns the next window, or nullopt at the end. Throws std::runtime_error (one sentence) if the window
  /// is not UTF-8 text.
  std::optional<std::string> next();

  uint64_t bytes() const { return in_.size(); }  // 0: not known
  uint64_t bytes_read() const { return at_; }

 private:
  void fill();

  TextInput in_;
  std::string ahead_;  // bytes that were read but not yet returned
  uint64_t at_ = 0;
};

class TextFeed {
 public:
  /// Throws like TextFile.
  TextFeed(std::vector<std::string> prompts, const std::vector<std::filesystem::path>& files);

  /// Returns the next text, or nullopt at the end. Throws like TextFile::next().
  std::optional<std::string> next();

  /// The share, in [0, 1], of all sources' bytes that next() has returned.
  double done() const;

 private:
  std::vector<std::string> prompts_;
  size_t next_prompt_ = 0;
  uint64_t prompt_bytes_ = 0, prompt_bytes_done_ = 0;
  std::vector<std::unique_ptr<TextFile>> files_;
  size_t turn_ = 0;  // the source of the next text: 0 for the prompts, 1 + i for file i
};

/// Returns the index of the first byte that is not UTF-8 text (RFC 3629) or is NUL, or npos.
size_t find_no_text(const std::string& bytes);

}  // namespace hearth
