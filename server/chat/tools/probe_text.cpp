#include "server/chat/tools/probe_text.h"

#include <algorithm>
#include <cctype>

#include "server/chat/tools/json_scanner.h"

namespace hearth::probe {
namespace {

/// Longer than any tag. Limits how far before a position tag_around() searches for the beginning of a tag.
constexpr size_t kMaxTagBytes = 80;

bool opens_tag(std::string_view text, size_t at) {
  if (text[at] == '<') return true;
  if (text[at] != '[' || at + 1 >= text.size()) return false;
  return text[at + 1] == '/' || std::isupper(static_cast<unsigned char>(text[at + 1])) != 0;
}

bool continues_character(std::string_view text, size_t at) {
  return at < text.size() && (static_cast<unsigned char>(text[at]) & 0xC0) == 0x80;
}

}  // namespace

std::string_view trim_start(std::string_view text) {
  const size_t first = text.find_first_not_of(kWhiteSpace);
  return first == kNone ? std::string_view() : text.substr(first);
}

std::string_view trim_end(std::string_view text) {
  const size_t last = text.find_last_not_of(kWhiteSpace);
  return last == kNone ? std::string_view() : text.substr(0, last + 1);
}

std::string_view trim(std::string_view text) { return trim_start(trim_end(text)); }

size_t tag_around(std::string_view text, size_t at) {
  const size_t least = at > kMaxTagBytes ? at - kMaxTagBytes : 0;
  for (size_t i = at; i > least; --i) {
    const char c = text[i - 1];
    if (c == '>' || c == ']' || c == '\n') return kNone;
    if (opens_tag(text, i - 1)) return i - 1;
  }
  return kNone;
}

size_t common_prefix(std::string_view a, std::string_view b) {
  const size_t most = std::min(a.size(), b.size());
  size_t n = 0;
  while (n < most && a[n] == b[n]) ++n;
  if (n == a.size()) return n;
  while (n > 0 && continues_character(a, n)) --n;
  const size_t tag = tag_around(a, n);
  return tag == kNone ? n : tag;
}

size_t common_suffix(std::string_view a, std::string_view b) {
  const size_t most = std::min(a.size(), b.size());
  size_t n = 0;
  while (n < most && a[a.size() - n - 1] == b[b.size() - n - 1]) ++n;
  if (n == a.size()) return n;
  size_t from = a.size() - n;
  while (continues_character(a, from)) ++from;
  if (tag_around(a, from) == kNone) return a.size() - from;
  const size_t tag_end = a.find(a[tag_around(a, from)] == '<' ? '>' : ']', from);
  return tag_end == kNone ? 0 : a.size() - tag_end - 1;
}

size_t json_end(std::string_view text, size_t at) {
  JsonScanner scanner;
  for (size_t i = at; i < text.size(); ++i) {
    switch (scanner.push(text[i])) {
      case JsonScanner::Status::kMore:
        break;
      case JsonScanner::Status::kDone:
        return i + 1;
      case JsonScanner::Status::kDoneBefore:
        return i;
      case JsonScanner::Status::kBad:
        return kNone;
    }
  }
  return kNone;
}

}  // namespace hearth::probe
