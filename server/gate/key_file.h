// API keys as files and the environment give them: a name, what the key is for, and its SHA-256 hash.
//
// Only hashes are kept, so that a dump of memory shows no key of a file, and so that all comparisons are of one length.
// Read at start and on SIGHUP, on the main thread.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/base/sha256.h"
#include "server/process/start_error.h"

namespace hearth {

/// What a key may be for. A key has any number of these.
enum class Role : uint8_t {
  kUse = 1,      // every endpoint that the others are not for
  kMetrics = 2,  // /metrics
  kAdmin = 4,    // /admin and below, and /metrics
};

/// "use", "metrics" or "admin".
std::string_view role_name(Role role);

struct ApiKey {
  std::string name;  // for the log: letters, digits and ._-
  Sha256 hash{};     // of the key's bytes
  uint8_t roles = static_cast<uint8_t>(Role::kUse);
  // Of POST requests (key_limits.h); 0: as many as there are.
  int concurrent = 0, per_minute = 0;

  bool has(Role role) const { return (roles & static_cast<uint8_t>(role)) != 0; }
};

/// One sentence: which key file and line, what is wrong with it. Never a key.
class KeyFileError : public StartError {
 public:
  using StartError::StartError;
};

/// A line of a key file, without blanks around it:
///   KEY                                      the key itself
///   sha256:HEX                               its hash, 64 hexadecimal digits
///   name=NAME role=use,metrics key=KEY       fields in any order, separated by blanks; KEY may be sha256:HEX. Only key is
///                                            required; without role it is for use.
///   ... concurrent=2 per-minute=60           limits; without them there are none
/// name: the key's name if the line has none. where: begins the sentence of an error. Throws KeyFileError.
ApiKey parse_key_line(std::string_view line, const std::string& name, const std::string& where);

/// The keys of a file's text, one a line; blanks around a line, empty lines and lines that begin with # are skipped. A key
/// without a name is called after its line: "line-3". Throws KeyFileError, also if there is no key in it (a server meant to
/// be closed must not come up open), or if two keys have one name, or two names one key.
std::vector<ApiKey> parse_key_file(std::string_view text, const std::string& path);

/// The same of a plain file of at most 1 MiB. Throws KeyFileError.
std::vector<ApiKey> read_key_file(const std::string& path);

/// All keys of a start: those of the file (empty: none), and `key`, a line of its own called "environment" (empty: none).
std::vector<ApiKey> read_all_keys(const std::string& path, const std::string& key);

/// Whether others than its owner and group may read the file.
bool is_readable_by_all(const std::string& path);

/// The line for a key file that has a key's hash instead of the key.
std::string hashed_key_line(std::string_view key);

}  // namespace hearth
