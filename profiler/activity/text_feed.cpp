// Implements TextInput, TextFile and TextFeed, and splits the built-in prompts.
#include "profiler/activity/text_feed.h"

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <stdexcept>
#include <system_error>
#include <utility>

#include "kernels/base/file_error.h"
#include "kernels/base/utf8.h"

namespace hearth {
namespace {

// The caller's limit `most` may far exceed the size of the text. Therefore read() does not allocate `most`
// bytes at once, but pieces of this size as bytes arrive.
constexpr size_t kTextPieceBytes = size_t{1} << 20;

std::string reason() { return " (" + std::generic_category().message(errno) + ")"; }

}  // namespace

TextInput::TextInput(const std::filesystem::path& path, std::string remedy)
    : label_(file_error::file_label(path.string())), remedy_(std::move(remedy)) {
  std::error_code error;
  if (std::filesystem::is_directory(path, error)) refuse("it is a folder");
  in_.open(path, std::ios::binary);
  if (!in_) refuse("it cannot be read" + reason());
  if (std::filesystem::is_regular_file(path, error)) size_ = std::filesystem::file_size(path, error);
}

void TextInput::seek(uint64_t at) { in_.seekg(static_cast<std::streamoff>(at)); }

std::string TextInput::read(size_t most) {
  std::string bytes;
  while (bytes.size() < most && in_) {
    const size_t had = bytes.size();
    bytes.resize(std::min(most, had + kTextPieceBytes));
    in_.read(bytes.data() + had, static_cast<std::streamsize>(bytes.size() - had));
    bytes.resize(had + static_cast<size_t>(in_.gcount()));
  }
  if (in_.bad()) refuse("reading it stopped" + reason());
  return bytes;
}

void TextInput::refuse(std::string_view what) const {
  throw std::runtime_error(label_ + ": " + std::string(what) + "; " + remedy_ + ".");
}

std::vector<std::string> split_prompts(std::string_view file) {
  constexpr std::string_view kParting = "\n%%\n";
  std::vector<std::string> prompts;
  while (!file.empty()) {
    const size_t end = std::min(file.find(kParting), file.size());
    std::string_view prompt = file.substr(0, end);
    file.remove_prefix(std::min(end + kParting.size(), file.size()));
    while (prompt.ends_with('\n')) prompt.remove_suffix(1);
    if (!prompt.empty()) prompts.emplace_back(prompt);
  }
  return prompts;
}

std::vector<std::string> built_in_prompts() {
  std::vector<std::vector<std::string>> files;
  for (const std::string_view file : prompt_files()) files.push_back(split_prompts(file));
  std::vector<std::string> prompts;
  for (size_t turn = 0, n_left = files.size(); n_left > 0; ++turn) {
    n_left = 0;
    for (std::vector<std::string>& file : files) {
      if (turn >= file.size()) continue;
      prompts.push_back(std::move(file[turn]));
      ++n_left;
    }
  }
  return prompts;
}

std::vector<std::string> held_out_prompts() { return split_prompts(held_out_file()); }

namespace {

constexpr size_t kReadBytes = 1 << 16;

/// Returns the largest index up to `most` that does not split a UTF-8 character.
size_t character_end(const std::string& bytes, size_t most) {
  size_t end = std::min(most, bytes.size());
  while (end > 0 && end < bytes.size() && (static_cast<unsigned char>(bytes[end]) & 0xc0) == 0x80) --end;
  return end;
}

/// Returns where to end a window of at most `most` bytes: after a line or a word if possible.
size_t window_end(const std::string& bytes, size_t most) {
  if (bytes.size() <= most) return bytes.size();
  const size_t half = most / 2;
  for (const char* ends : {"\n", " \t"}) {
    const size_t at = bytes.find_last_of(ends, most - 1);
    if (at != std::string::npos && at >= half) return at + 1;
  }
  const size_t end = character_end(bytes, most);
  return end > 0 ? end : most;  // no character is that long
}

bool is_blank(const std::string& text) {
  return std::ranges::all_of(text, [](unsigned char c) { return std::isspace(c) != 0; });
}

}  // namespace

size_t find_no_text(const std::string& bytes) {
  const size_t at = std::min(utf8_valid_prefix(bytes), bytes.find('\0'));
  return at < bytes.size() ? at : std::string::npos;
}

TextFile::TextFile(const std::filesystem::path& path) : in_(path, "give a text file") {
  fill();
  if (ahead_.empty()) in_.refuse("it is empty");
}

/// Reads more, and checks what it read.
void TextFile::fill() {
  ahead_ += in_.read(kReadBytes);
  const size_t wrong = find_no_text(ahead_);
  if (wrong == std::string::npos) return;
  // The first invalid bytes may be the beginning of a valid character whose other bytes have not been read
  // yet.
  const bool cut = ahead_.size() - wrong < 4 && !in_.at_end();
  if (cut && ahead_[wrong] != '\0') return;
  const unsigned byte = static_cast<unsigned char>(ahead_[wrong]);
  constexpr const char* kDigits = "0123456789ABCDEF";
  in_.refuse(std::string("it is not UTF-8 text: byte 0x") + kDigits[byte >> 4] + kDigits[byte & 15] + " at " +
             file_error::with_commas(at_ + wrong) + " (iconv converts most texts)");
}

std::optional<std::string> TextFile::next() {
  for (;;) {
    if (ahead_.size() < kWindowBytes + 4 && !in_.at_end()) fill();
    if (ahead_.empty()) return std::nullopt;
    const size_t end = window_end(ahead_, kWindowBytes);
    std::string window = ahead_.substr(0, end);
    ahead_.erase(0, end);
    at_ += end;
    if (!is_blank(window)) return window;
  }
}

TextFeed::TextFeed(std::vector<std::string> prompts, const std::vector<std::filesystem::path>& files)
    : prompts_(std::move(prompts)) {
  for (const std::string& prompt : prompts_) prompt_bytes_ += prompt.size();
  for (const std::filesystem::path& path : files) files_.push_back(std::make_unique<TextFile>(path));
}

std::optional<std::string> TextFeed::next() {
  // Tries each source once, beginning with source turn_. Source 0 is the prompts, and source i is file i - 1.
  for (size_t tried = 0; tried <= files_.size(); ++tried) {
    const size_t source = turn_;
    turn_ = (turn_ + 1) % (files_.size() + 1);
    if (source == 0) {
      if (next_prompt_ == prompts_.size()) continue;
      prompt_bytes_done_ += prompts_[next_prompt_].size();
      return prompts_[next_prompt_++];
    }
    if (std::optional<std::string> text = files_[source - 1]->next()) return text;
  }
  return std::nullopt;
}

double TextFeed::done() const {
  uint64_t all = prompt_bytes_, given = prompt_bytes_done_;
  for (const std::unique_ptr<TextFile>& file : files_) {
    all += std::max(file->bytes(), file->bytes_read());
    given += file->bytes_read();
  }
  return all == 0 ? 1 : static_cast<double>(given) / static_cast<double>(all);
}

}  // namespace hearth
