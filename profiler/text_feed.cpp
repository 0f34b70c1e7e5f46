// See the header.
#include "profiler/text_feed.h"

#include <algorithm>
#include <cctype>
#include <stdexcept>
#include <system_error>

#include "engine/gguf/fault.h"

namespace hearth {
namespace {

constexpr size_t kReadBytes = 1 << 16;

/// Bytes of the character that begins here, 0: none does. Overlong forms, surrogates and what lies beyond
/// Unicode are none.
size_t character_bytes(const std::string& bytes, size_t at) {
  const auto byte = [&](size_t i) -> unsigned { return static_cast<unsigned char>(bytes[at + i]); };
  const unsigned first = byte(0);
  if (first < 0x80) return first == 0 ? 0 : 1;
  const size_t n = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
  if (first < 0xc2 || first > 0xf4 || at + n > bytes.size()) return 0;
  for (size_t i = 1; i < n; ++i) {
    if ((byte(i) & 0xc0) != 0x80) return 0;
  }
  const unsigned second = byte(1);
  if ((first == 0xe0 && second < 0xa0) || (first == 0xed && second > 0x9f) ||
      (first == 0xf0 && second < 0x90) || (first == 0xf4 && second > 0x8f)) {
    return 0;
  }
  return n;
}

/// The largest place up to `most` at which no character is cut.
size_t character_end(const std::string& bytes, size_t most) {
  size_t end = std::min(most, bytes.size());
  while (end > 0 && end < bytes.size() && (static_cast<unsigned char>(bytes[end]) & 0xc0) == 0x80) --end;
  return end;
}

/// Where a window that may have up to `most` bytes ends best.
size_t window_end(const std::string& bytes, size_t most) {
  if (bytes.size() <= most) return bytes.size();
  const size_t half = most / 2;
  for (const char* ends : {"\n", " \t"}) {
    const size_t at = bytes.find_last_of(ends, most - 1);
    if (at != std::string::npos && at >= half) return at + 1;
  }
  const size_t end = character_end(bytes, most);
  return end > 0 ? end : most;  // no character is so long
}

bool is_blank(const std::string& text) {
  return std::ranges::all_of(text, [](unsigned char c) { return std::isspace(c) != 0; });
}

}  // namespace

size_t find_no_text(const std::string& bytes) {
  for (size_t at = 0; at < bytes.size();) {
    const size_t n = character_bytes(bytes, at);
    if (n == 0) return at;
    at += n;
  }
  return std::string::npos;
}

TextFile::TextFile(const std::filesystem::path& path) : label_(gguf::file_label(path.string())) {
  std::error_code error;
  if (std::filesystem::is_directory(path, error)) {
    throw std::runtime_error(label_ + ": it is a folder; give a text file.");
  }
  in_.open(path, std::ios::binary);
  if (!in_) throw std::runtime_error(label_ + ": it cannot be read; give a text file.");
  const std::uintmax_t size = std::filesystem::file_size(path, error);
  if (!error) bytes_ = size;
  fill();
  if (ahead_.empty()) throw std::runtime_error(label_ + ": it is empty; give a text file.");
}

/// Reads on, and checks what was read.
void TextFile::fill() {
  const size_t had = ahead_.size();
  ahead_.resize(had + kReadBytes);
  in_.read(ahead_.data() + had, kReadBytes);
  ahead_.resize(had + static_cast<size_t>(in_.gcount()));
  if (in_.bad()) throw std::runtime_error(label_ + ": reading it stopped; check the disk.");
  const size_t wrong = find_no_text(ahead_);
  if (wrong == std::string::npos) return;
  const bool cut = ahead_.size() - wrong < 4 && in_;  // a character whose rest is still to come
  if (cut && ahead_[wrong] != '\0') return;
  const unsigned byte = static_cast<unsigned char>(ahead_[wrong]);
  constexpr const char* kDigits = "0123456789ABCDEF";
  throw std::runtime_error(label_ + ": it is no UTF-8 text: byte 0x" + kDigits[byte >> 4] +
                           kDigits[byte & 15] + " at " + gguf::with_commas(at_ + wrong) +
                           "; give a text file, converted with iconv if need be.");
}

std::optional<std::string> TextFile::next() {
  for (;;) {
    if (ahead_.size() < kWindowBytes + 4 && in_) fill();
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
  // Every source once, from the one whose turn it is.
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
