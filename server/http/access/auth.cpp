// See the header.
#include "server/http/access/auth.h"

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string_view>

namespace hearth {
namespace {

std::string_view trimmed(std::string_view text) {
  const size_t begin = text.find_first_not_of(" \t\r");
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(" \t\r") - begin + 1);
}

/// Looks at every byte of `given`, whatever it finds. The keys' lengths are no secret.
bool equal_in_constant_time(std::string_view given, std::string_view key) {
  unsigned difference = given.size() == key.size() ? 0 : 1;
  for (size_t i = 0; i < given.size(); ++i) {
    const char expected = key[i % key.size()];
    difference |= static_cast<unsigned char>(given[i] ^ expected);
  }
  return difference == 0;
}

std::string_view key_of(const HttpRequest& request) {
  const std::string_view authorization = trimmed(request.header("Authorization"));
  constexpr std::string_view kScheme = "bearer ";
  if (authorization.size() > kScheme.size()) {
    std::string scheme(authorization.substr(0, kScheme.size()));
    for (char& c : scheme) c = static_cast<char>(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
    if (scheme == kScheme) return trimmed(authorization.substr(kScheme.size()));
  }
  // X-Api-Key is Anthropic's and many proxies', api-key is Azure's.
  const std::string_view key = trimmed(request.header("X-Api-Key"));
  return key.empty() ? trimmed(request.header("api-key")) : key;
}

}  // namespace

std::vector<std::string> read_key_file(const std::string& path) {
  std::error_code error;
  const std::filesystem::file_status status = std::filesystem::status(path, error);
  if (!std::filesystem::exists(status)) throw KeyFileError(path + ": there is no such file of API keys");
  if (!std::filesystem::is_regular_file(status))
    throw KeyFileError(path + ": the file of API keys must be a plain file");
  std::ifstream in(path);
  if (!in) throw KeyFileError(path + ": the file of API keys cannot be read: " + std::strerror(errno));
  std::vector<std::string> keys;
  constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";  // put first by some editors
  bool first = true;
  for (std::string line; std::getline(in, line); first = false) {
    if (first && line.rfind(kByteOrderMark, 0) == 0) line.erase(0, kByteOrderMark.size());
    const std::string_view key = trimmed(line);
    if (!key.empty() && key.front() != '#') keys.emplace_back(key);
  }
  if (keys.empty())
    throw KeyFileError(path + ": there is no API key in this file; put one on a line of its own");
  return keys;
}

std::optional<ApiError> Auth::refusal(const HttpRequest& request) const {
  if (!required()) return std::nullopt;
  const std::string_view given = key_of(request);
  if (given.empty()) {
    return ApiError{401, "no API key was sent; send it as 'Authorization: Bearer KEY'", "",
                    "missing_api_key"};
  }
  bool known = false;
  for (const std::string& key : keys_) known |= equal_in_constant_time(given, key);
  if (known) return std::nullopt;
  return ApiError{401, "the API key is not one of this server's", "", "invalid_api_key"};
}

}  // namespace hearth
