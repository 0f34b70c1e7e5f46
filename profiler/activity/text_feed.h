// Texts to run through a model: the prompts built into the program, and the user's files of any size, read
// whole, in samples, or cut into windows.
//
// A TextFeed takes one text from each source in turn, so that its first few are a fair sample of all of them.
// The built-in prompts are profiler/activity/prompts/*.txt, of the kinds of text that models are given: chat,
// prose, code, lists, tables, several languages. One thread.
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
  /// remedy: the end of each sentence, "give --text another file". Throws std::runtime_error (one sentence),
  /// as all members do: it is a folder, or cannot be read.
  TextInput(const std::filesystem::path& path, std::string remedy);

  /// Of a plain file, in bytes; 0 of what has no size, a pipe say.
  uint64_t size() const { return size_; }
  void seek(uint64_t at);

  /// The next bytes, `most` of them; fewer only at the end.
  std::string read(size_t most);
  bool at_end() const { return !in_; }

  /// Throws: "<the file>: <what>; <remedy>."
  [[noreturn]] void refuse(std::string_view what) const;

 private:
  std::string label_, remedy_;
  std::ifstream in_;
  uint64_t size_ = 0;
};

/// The files as they are, in the order of their names.
std::span<const std::string_view> prompt_files();

/// The file of prompts on which nothing is counted, so that what was counted can be judged on them.
std::string_view held_out_file();

/// Texts parted by lines of "%%", without the line break before those and at the end; empty ones are left
/// out.
std::vector<std::string> split_prompts(std::string_view file);

/// All prompts, in turn one of each file, so that the first few are a fair sample already.
std::vector<std::string> built_in_prompts();
/// Those of the held-out file.
std::vector<std::string> held_out_prompts();

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
