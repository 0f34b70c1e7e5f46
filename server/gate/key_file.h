// Reads API keys from files and the environment: name, roles, limits and SHA-256 hash.
//
// hearthd stores only the hashes of keys. A memory dump therefore does not show the keys of a file, and the
// two sides of every comparison have the same length. The keys are read on the main thread, at start and on
// SIGHUP.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/base/sha256.h"
#include "server/process/start_error.h"

namespace hearth {

/// Permissions of a key. A key may have several roles.
enum class Role : uint8_t {
  kUse = 1,      // every endpoint that does not need another role
  kMetrics = 2,  // /metrics
  kAdmin = 4,    // /admin and all paths below it, and /metrics
};

/// Returns "use", "metrics" or "admin".
std::string_view role_name(Role role);

struct ApiKey {
  std::string name;  // for the log; letters, digits and ._-
  Sha256 hash{};     // SHA-256 of the key's bytes
  uint8_t roles = static_cast<uint8_t>(Role::kUse);
  // Limits of POST requests (KeyLimits); 0: unlimited.
  int concurrent = 0, per_minute = 0;

  bool has(Role role) const { return (roles & static_cast<uint8_t>(role)) != 0; }
};

/// The message is one sentence, which contains the file, the line and the error, but never a key.
class KeyFileError : public StartError {
 public:
  using StartError::StartError;
};

/// Parses a line of a key file, without blanks at its ends:
///   KEY                                      the key
///   sha256:HEX                               the hash of the key, 64 hexadecimal digits
///   name=NAME role=use,metrics key=KEY       fields in any order, separated by blanks; KEY may be
///                                            sha256:HEX. Only `key` is required; the default role is `use`.
///   ... concurrent=2 per-minute=60           limits; without these fields, the key is unlimited
/// name: the key's name if the line contains none. where: begins error messages. Throws KeyFileError.
ApiKey parse_key_line(std::string_view line, const std::string& name, const std::string& where);

/// Parses the text of a key file, which has one key per line. Skips empty lines, lines that begin with #, and
/// blanks at the ends of lines. A key without a name gets its line's name, for example "line-3". Throws
/// KeyFileError if a line is malformed, if two keys have one name, if a key has two names, or if there is no
/// key, because the server would then be open to everyone.
std::vector<ApiKey> parse_key_file(std::string_view text, const std::string& path);

/// Reads a key file with parse_key_file(). Throws KeyFileError if it is not a regular file of at most 1 MiB.
std::vector<ApiKey> read_key_file(const std::string& path);

/// Returns all keys of the server. path: the key file; empty: none. key: a line in the format of a key file,
/// whose default name is "environment"; empty: none. Throws KeyFileError.
std::vector<ApiKey> read_all_keys(const std::string& path, const std::string& key);

/// Whether users other than the file's owner and group can read the file.
bool is_readable_by_all(const std::string& path);

/// Returns a line for a key file that contains the key's hash instead of the key.
std::string hashed_key_line(std::string_view key);

}  // namespace hearth
