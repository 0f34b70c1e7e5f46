// See the header.
#include "server/gate/content_type.h"

#include <algorithm>
#include <array>
#include <string>

namespace hearth {
namespace {

// Accepted types, besides all types that end with "json", such as application/json.
constexpr std::array<std::string_view, 4> kTaken = {"", "text/plain", "application/x-www-form-urlencoded",
                                                    "application/octet-stream"};
constexpr size_t kShownBytes = 100;  // maximum length of a type in the error message

/// Example: "Text/Plain; charset=utf-8" -> "text/plain".
std::string type_without_parameters(std::string_view content_type) {
  std::string type(content_type.substr(0, content_type.find(';')));
  while (!type.empty() && (type.back() == ' ' || type.back() == '\t')) type.pop_back();
  for (char& c : type) c = static_cast<char>(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
  return type;
}

}  // namespace

std::optional<ApiError> content_type_refusal(std::string_view content_type) {
  const std::string type = type_without_parameters(content_type);
  if (type.ends_with("json") || std::find(kTaken.begin(), kTaken.end(), type) != kTaken.end())
    return std::nullopt;
  return ApiError{415,
                  "this endpoint takes a JSON object, and the request's Content-Type is " +
                      type.substr(0, kShownBytes) + "; send JSON with Content-Type: application/json",
                  "", "unsupported_content_type"};
}

}  // namespace hearth
