// See the header.
#include "server/http/http_target.h"

#include <algorithm>
#include <cctype>
#include <cstdint>
#include <cstdio>
#include <random>

namespace hearth {

std::string normalised_path(std::string_view path) {
  for (const std::string_view scheme : {"http://", "https://"}) {
    if (path.substr(0, scheme.size()) != scheme) continue;
    path.remove_prefix(scheme.size());
    path.remove_prefix(std::min(path.find('/'), path.size()));
  }
  std::string out = "/";
  for (char c : path) {
    if (c != '/' || out.back() != '/') out += c;
  }
  if (out.size() > 1 && out.back() == '/') out.pop_back();
  return out;
}

std::string request_id_from(std::string_view client_id) {
  const auto plain = [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 ||
           std::string_view("-_.:/+=@").find(c) != std::string::npos;
  };
  if (!client_id.empty() && client_id.size() <= 128 &&
      std::all_of(client_id.begin(), client_id.end(), plain)) {
    return std::string(client_id);
  }
  thread_local std::mt19937_64 bits{std::random_device{}()};  // an id, no secret
  char text[40];
  std::snprintf(text, sizeof(text), "req-%016llx", static_cast<unsigned long long>(bits()));
  return text;
}

}  // namespace hearth
