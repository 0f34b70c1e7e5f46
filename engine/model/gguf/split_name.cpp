// Names of parts, taken apart and put together.
#include "engine/model/gguf/split_name.h"

#include <charconv>
#include <cstdio>
#include <string_view>

namespace hearth::gguf {
namespace {

constexpr std::string_view kSuffix = ".gguf";
constexpr std::string_view kOf = "-of-";
constexpr size_t kDigits = 5;

// Five digits at `at`, or nullopt.
std::optional<int> digits_at(std::string_view text, size_t at) {
  int value = 0;
  const char* begin = text.data() + at;
  const std::from_chars_result result = std::from_chars(begin, begin + kDigits, value);
  if (result.ec != std::errc{} || result.ptr != begin + kDigits || *begin == '-') return std::nullopt;
  return value;
}

}  // namespace

std::optional<SplitName> parse_split_name(const std::filesystem::path& path) {
  const std::string name = path.filename().string();
  constexpr size_t kTail = 1 + kDigits + kOf.size() + kDigits + kSuffix.size();  // "-00001-of-00003.gguf"
  if (name.size() < kTail) return std::nullopt;
  const size_t dash = name.size() - kTail;
  const std::string_view view = name;
  if (view[dash] != '-' || view.substr(dash + 1 + kDigits, kOf.size()) != kOf || !view.ends_with(kSuffix)) {
    return std::nullopt;
  }
  const std::optional<int> number = digits_at(view, dash + 1);
  const std::optional<int> count = digits_at(view, dash + 1 + kDigits + kOf.size());
  if (!number || !count || *number < 1 || *number > *count) return std::nullopt;
  return SplitName{path.parent_path(), name.substr(0, dash), *number, *count};
}

std::filesystem::path split_path(const SplitName& name, int number) {
  char tail[32];
  std::snprintf(tail, sizeof tail, "-%05d-of-%05d.gguf", number, name.count);
  return name.folder / (name.stem + tail);
}

}  // namespace hearth::gguf
