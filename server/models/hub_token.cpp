// See the header.
#include "server/models/hub_token.h"

#include <algorithm>
#include <filesystem>
#include <stdexcept>

#include "kernels/base/file_error.h"
#include "kernels/base/whole_file.h"
#include "profiler/store/hub.h"

namespace hearth {
namespace {

namespace fs = std::filesystem;

constexpr size_t kMostTokenBytes = 4096;

/// Returns the token in a text, without white space around it. Rejects control characters, because a line
/// break would begin another header. where: begins the error message.
std::string checked_token(std::string text, const std::string& where) {
  while (!text.empty() && (text.back() == '\n' || text.back() == '\r' || text.back() == ' ')) text.pop_back();
  while (!text.empty() && text.front() == ' ') text.erase(0, 1);
  const bool plain = std::ranges::all_of(text, [](char c) { return c > ' ' && c < 0x7f; });
  if (!plain || text.size() > kMostTokenBytes) throw PullError(where + " does not hold an access token");
  return text;
}

std::string token_in(const fs::path& path) {
  const std::string label = file_error::file_label(path.string());
  try {
    return checked_token(read_whole_file(path, kMostTokenBytes + 16), label);
  } catch (const PullError&) {
    throw;
  } catch (const std::runtime_error& error) {
    throw PullError("the hub's token: " + std::string(error.what()));
  }
}

}  // namespace

std::string hub_token(const std::string& token_file, const Environment& environment) {
  if (!token_file.empty()) {
    std::string token = token_in(token_file);
    if (token.empty())
      throw PullError(file_error::file_label(token_file) + ": the file of the hub's token is empty");
    return token;
  }
  if (std::string token = checked_token(environment_value(environment, "HF_TOKEN"), "HF_TOKEN");
      !token.empty())
    return token;
  const std::string named = environment_value(environment, "HF_TOKEN_PATH");
  const std::string hub_home = environment_value(environment, "HF_HOME");
  const std::string cache = environment_value(environment, "XDG_CACHE_HOME");
  const std::string home = environment_value(environment, "HOME");
  std::error_code error;
  fs::path path;
  if (!named.empty()) {
    path = named;
  } else if (!hub_home.empty()) {
    path = fs::path(hub_home) / "token";
  } else if (!cache.empty() && fs::exists(fs::path(cache) / "huggingface" / "token", error)) {
    path = fs::path(cache) / "huggingface" / "token";
  } else if (!home.empty()) {
    path = fs::path(home) / ".cache" / "huggingface" / "token";
  }
  if (path.empty() || !fs::exists(path, error)) return {};
  return token_in(path);
}

}  // namespace hearth
