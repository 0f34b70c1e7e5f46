// See the header.
#include "profiler/activity/text_feed.h"

#include <algorithm>
#include <cctype>

#include "engine/model/gguf/fault.h"
#include "engine/tokenizer/utf8.h"

namespace hearth {
namespace {

constexpr size_t kReadBytes = 1 << 16;

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
  const size_t at = std::min(utf8_valid_prefix(bytes), bytes.find('\0'));
  return at < bytes.size() ? at : std::string::npos;
}

TextFile::TextFile(const std::filesystem::path& path) : in_(path, "give a text file") {
  fill();
  if (ahead_.empty()) in_.refuse("it is empty");
}

/// Reads on, and checks what was read.
void TextFile::fill() {
  ahead_ += in_.read(kReadBytes);
  const size_t wrong = find_no_text(ahead_);
  if (wrong == std::string::npos) return;
  const bool cut = ahead_.size() - wrong < 4 && !in_.at_end();  // a character whose rest is still to come
  if (cut && ahead_[wrong] != '\0') return;
  const unsigned byte = static_cast<unsigned char>(ahead_[wrong]);
  constexpr const char* kDigits = "0123456789ABCDEF";
  in_.refuse(std::string("it is no UTF-8 text: byte 0x") + kDigits[byte >> 4] + kDigits[byte & 15] + " at " +
             gguf::with_commas(at_ + wrong) + " (iconv converts most texts)");
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
