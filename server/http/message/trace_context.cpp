// See the header.
#include "server/http/message/trace_context.h"

#include <algorithm>

namespace hearth {
namespace {

/// The specification allows only lower case.
bool is_hex(std::string_view text) {
  return std::ranges::all_of(text, [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); });
}

bool is_zero(std::string_view text) { return text.find_first_not_of('0') == std::string_view::npos; }

}  // namespace

std::optional<std::string> trace_id_of(std::string_view text) {
  constexpr size_t kSize = 55;  // version, trace id, parent id and flags, joined by dashes
  if (text.size() < kSize || text[2] != '-' || text[35] != '-' || text[52] != '-') return std::nullopt;
  const std::string_view version = text.substr(0, 2), trace = text.substr(3, 32),
                         parent = text.substr(36, 16), flags = text.substr(53, 2);
  if (!is_hex(version) || !is_hex(trace) || !is_hex(parent) || !is_hex(flags)) return std::nullopt;
  const bool goes_on = text.size() > kSize;
  if (version == "ff" || (goes_on && (version == "00" || text[kSize] != '-'))) return std::nullopt;
  if (is_zero(trace) || is_zero(parent)) return std::nullopt;
  return std::string(trace);
}

}  // namespace hearth
