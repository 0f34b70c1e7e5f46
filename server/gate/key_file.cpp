// See the header.
#include "server/gate/key_file.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>

#include "server/http/message/header_text.h"

namespace hearth {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kBlank = " \t\r";
constexpr std::string_view kHashed = "sha256:";
// Keeps hearthd from reading a large file, such as a model, that was given by mistake.
constexpr std::uintmax_t kMaxFileBytes = 1 << 20;
constexpr size_t kMaxNameBytes = 64;
constexpr int kMaxLimit = 1'000'000;
constexpr std::array kRoles = {Role::kUse, Role::kMetrics, Role::kAdmin};

/// Returns the text up to the first separator. Removes the text and the separator from `rest`.
std::string_view next_part(std::string_view& rest, std::string_view separators) {
  const size_t end = std::min(rest.find_first_of(separators), rest.size());
  const std::string_view part = rest.substr(0, end);
  rest.remove_prefix(std::min(end + 1, rest.size()));
  return part;
}

int digit_value(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

/// Returns the hash, or nullopt if the text is not 64 hexadecimal digits.
std::optional<Sha256> parse_hash(std::string_view digits) {
  Sha256 hash{};
  if (digits.size() != 2 * hash.size()) return std::nullopt;
  for (size_t i = 0; i < hash.size(); ++i) {
    const int high = digit_value(digits[2 * i]), low = digit_value(digits[2 * i + 1]);
    if (high < 0 || low < 0) return std::nullopt;
    hash[i] = static_cast<uint8_t>(16 * high + low);
  }
  return hash;
}

Sha256 read_key(std::string_view key, const std::string& where) {
  if (key.empty()) throw KeyFileError(where + ": the key is empty");
  if (!key.starts_with(kHashed)) return sha256(key);
  const std::optional<Sha256> hash = parse_hash(key.substr(kHashed.size()));
  if (!hash)
    throw KeyFileError(
        where +
        ": what follows sha256: must be 64 hexadecimal digits; hearthd --hash-key prints such a line");
  return *hash;
}

std::string read_name(std::string_view name, const std::string& where) {
  const bool good = !name.empty() && name.size() <= kMaxNameBytes && std::ranges::all_of(name, [](char c) {
    return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || c == '.' ||
           c == '_' || c == '-';
  });
  if (!good) throw KeyFileError(where + ": a key's name must be 1 to 64 letters, digits and ._-");
  return std::string(name);
}

uint8_t read_roles(std::string_view words, const std::string& where) {
  uint8_t roles = 0;
  while (!words.empty()) {
    const std::string_view word = next_part(words, ",");
    const auto* role = std::ranges::find(kRoles, word, role_name);
    if (role == kRoles.end())
      throw KeyFileError(where + ": role must list use, metrics or admin, separated by commas");
    roles |= static_cast<uint8_t>(*role);
  }
  if (roles == 0) throw KeyFileError(where + ": role is empty; it must list use, metrics or admin");
  return roles;
}

int read_limit(std::string_view digits, const char* field, const std::string& where) {
  int limit = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), limit);
  if (error != std::errc() || end != digits.data() + digits.size() || limit < 1 || limit > kMaxLimit)
    throw KeyFileError(where + ": " + field + " must be a number from 1 to " + std::to_string(kMaxLimit));
  return limit;
}

constexpr std::array<std::string_view, 5> kFields = {"name=", "role=", "key=", "concurrent=", "per-minute="};

bool has_fields(std::string_view line) {
  return std::ranges::any_of(kFields, [line](std::string_view field) { return line.starts_with(field); });
}

/// Throws KeyFileError if two keys have the same name, or if one key has two names.
void check_unique(const std::vector<ApiKey>& keys, const std::string& path) {
  for (size_t i = 0; i < keys.size(); ++i) {
    for (size_t k = 0; k < i; ++k) {
      if (keys[i].name == keys[k].name)
        throw KeyFileError(path + ": two keys have the name " + keys[i].name +
                           "; the log could not tell them apart");
      if (keys[i].hash == keys[k].hash)
        throw KeyFileError(path + ": " + keys[k].name + " and " + keys[i].name +
                           " are the same key; remove one of them");
    }
  }
}

}  // namespace

std::string_view role_name(Role role) {
  switch (role) {
    case Role::kMetrics:
      return "metrics";
    case Role::kAdmin:
      return "admin";
    case Role::kUse:
      break;
  }
  return "use";
}

ApiKey parse_key_line(std::string_view line, const std::string& name, const std::string& where) {
  ApiKey key{.name = name};
  line = trimmed(line, kBlank);
  if (!has_fields(line)) {
    key.hash = read_key(line, where);
    return key;
  }
  bool has_name = false, has_role = false, has_key = false, has_concurrent = false, has_rate = false;
  const auto once = [&where](bool& seen, const char* field) {
    if (seen) throw KeyFileError(where + ": " + field + " is given twice");
    seen = true;
  };
  for (std::string_view rest = line; !rest.empty();) {
    std::string_view value = next_part(rest, kBlank);
    if (value.empty()) continue;  // there are consecutive blanks
    const std::string_view field = next_part(value, "=");
    if (field == "name") {
      once(has_name, "name");
      key.name = read_name(value, where);
    } else if (field == "role") {
      once(has_role, "role");
      key.roles = read_roles(value, where);
    } else if (field == "key") {
      once(has_key, "key");
      key.hash = read_key(value, where);
    } else if (field == "concurrent") {
      once(has_concurrent, "concurrent");
      key.concurrent = read_limit(value, "concurrent", where);
    } else if (field == "per-minute") {
      once(has_rate, "per-minute");
      key.per_minute = read_limit(value, "per-minute", where);
    } else {
      // The word may be part of a key that contains blanks, so the message does not contain the word.
      throw KeyFileError(
          where +
          ": expected the fields name=, role=, key=, concurrent= and per-minute=, with blanks only "
          "between them");
    }
  }
  if (!has_key) throw KeyFileError(where + ": key= is missing");
  return key;
}

std::vector<ApiKey> parse_key_file(std::string_view text, const std::string& path) {
  // Some editors write a byte order mark at the beginning of a file.
  constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";
  if (text.starts_with(kByteOrderMark)) text.remove_prefix(kByteOrderMark.size());
  std::vector<ApiKey> keys;
  for (int number = 1; !text.empty(); ++number) {
    const std::string_view line = trimmed(next_part(text, "\n"), kBlank);
    if (line.empty() || line.front() == '#') continue;
    const std::string n = std::to_string(number);
    ApiKey key = parse_key_line(line, "line-" + n, path + ", line " + n);
    // A line that has no fields and repeats the key of an earlier line is ignored.
    const bool repeated = !has_fields(line) && std::ranges::find(keys, key.hash, &ApiKey::hash) != keys.end();
    if (!repeated) keys.push_back(std::move(key));
  }
  if (keys.empty())
    throw KeyFileError(path + ": there is no API key in this file; put one on a line of its own");
  check_unique(keys, path);
  return keys;
}

std::vector<ApiKey> read_key_file(const std::string& path) {
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (!fs::exists(status)) throw KeyFileError(path + ": there is no such file of API keys");
  if (!fs::is_regular_file(status)) throw KeyFileError(path + ": the file of API keys must be a plain file");
  if (fs::file_size(path, error) > kMaxFileBytes && !error)
    throw KeyFileError(path + ": too large for a file of API keys (1 MiB at most)");
  std::ifstream in(path, std::ios::binary);
  if (!in) throw KeyFileError(path + ": the file of API keys cannot be read: " + std::strerror(errno));
  const std::string text{std::istreambuf_iterator<char>(in), {}};
  return parse_key_file(text, path);
}

std::vector<ApiKey> read_all_keys(const std::string& path, const std::string& key) {
  std::vector<ApiKey> keys;
  if (!path.empty()) keys = read_key_file(path);
  if (!key.empty()) keys.push_back(parse_key_line(key, "environment", "HEARTH_API_KEY"));
  return keys;
}

bool is_readable_by_all(const std::string& path) {
  std::error_code error;
  return (fs::status(path, error).permissions() & fs::perms::others_read) != fs::perms::none && !error;
}

std::string hashed_key_line(std::string_view key) {
  const std::string digits = sha256_hex(key);
  return "name=key-" + digits.substr(0, 8) + " role=use key=sha256:" + digits;
}

}  // namespace hearth
