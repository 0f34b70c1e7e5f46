// A file that the user names to be read as text, and the sentences of what is wrong with it.
//
// Used by what reads texts whole (text_io.h), in windows (text_feed.h) and in samples
// (predictors/text_sample.h). One thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>

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

}  // namespace hearth
