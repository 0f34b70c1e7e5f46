// API keys from files and the environment: name, roles, limits, and SHA-256 hash.
//
// hearthd keeps only the hashes. A memory dump therefore shows no key of a file, and all comparisons have the
// same length. The keys are read at start and on SIGHUP, on the main thread.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/base/sha256.h"
#include "server/process/start_error.h"

namespace hearth {

/// Permissions of a key. A key has any number of roles.
enum class Role : uint8_t {
  kUse = 1,      // every endpoint that needs no other role
  kMetrics = 2,  // /metrics
  kAdmin = 4,    // /admin and all paths below it, and /metrics
};

/// "use", "metrics" or "admin".
std::string_view role_name(Role role);

struct ApiKey {
  std::string name;  // for the log: letters, digits and ._-
  Sha256 hash{};     // hash of the key's bytes
  uint8_t roles = static_cast<uint8_t>(Role::kUse);
  // Limits of POST requests (key_limits.h); 0: unlimited.
  int concurrent = 0, per_minute = 0;

  bool has(Role role) const { return (roles & static_cast<uint8_t>(role)) != 0; }
};

/// One sentence: which key file and line, and what is wrong with it. Never contains a key.
class KeyFileError : public StartError {
 public:
  using StartError::StartError;
};

/// Parses a line of a key file, without blanks around it:
///   KEY                                      the key itself
///   sha256:HEX                               its hash, 64 hexadecimal digits
///   name=NAME role=use,metrics key=KEY       fields in any order, separated by blanks; KEY may be
///                                            sha256:HEX. Only `key` is required; the default role is `use`.
///   ... concurrent=2 per-minute=60           limits; without them there are none
/// name: the key's name if the line gives none. where: the beginning of an error message. Throws
/// KeyFileError.
ApiKey parse_key_line(std::string_view line, const std::string& name, const std::string& where);

/// Parses a key file's text, one key per line; skips empty lines, lines that begin with #, and blanks around
/// a line. A key without a name is named after its line: "line-3". Throws KeyFileError if a line is
/// malformed, if the file has no key (otherwise a server meant to be closed would be open), if two keys share
/// a name, or if a key has two names.
std::vector<ApiKey> parse_key_file(std::string_view text, const std::string& path);

/// Like parse_key_file(), for a plain file of at most 1 MiB. Throws KeyFileError.
std::vector<ApiKey> read_key_file(const std::string& path);

/// Returns all keys of the server: those of the file at `path` (none if `path` is empty), and the key in the
/// line `key` (none if `key` is empty), whose default name is "environment". Throws KeyFileError.
std::vector<ApiKey> read_all_keys(const std::string& path, const std::string& key);

/// Whether the file is readable by users other than its owner and group.
bool is_readable_by_all(const std::string& path);

/// A line for a key file, with the key's hash instead of the key.
std::string hashed_key_line(std::string_view key);

}  // namespace hearth
