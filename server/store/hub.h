// The parts of Hugging Face's API that pulling needs: URLs of file lists and files, parsing of lists, and the
// meaning of refusals. Converts text to values and uses no network. Any thread.
//
// API: https://huggingface.co/docs/hub/api, GET /api/models/OWNER/REPO[/revision/REV]?blobs=true. Any byte of
// an answer may be hostile: the hub, a mirror or an intermediary may have sent it.
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "server/store/reference.h"

namespace hearth {

/// One sentence: why a pull failed.
class PullError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// A temporary failure of the network or server: the same pull may succeed later without any change.
class PassingPullError : public PullError {
 public:
  using PullError::PullError;
};

inline constexpr std::string_view kHuggingFace = "https://huggingface.co";

/// No model is larger; sizes above this are rejected before allocation or arithmetic.
inline constexpr uint64_t kMostFileBytes = uint64_t{1} << 50;

/// Whether the text is a SHA-256: 64 hexadecimal digits, in either case.
bool is_sha256(std::string_view text);

struct HubFile {
  std::string path;    // path in the repository; satisfies is_safe_path()
  uint64_t size = 0;   // bytes; 0: not reported by the hub
  std::string sha256;  // lower case; empty: a small file, for which the hub has none
  bool operator==(const HubFile&) const = default;
};

struct HubRepository {
  std::string commit;          // 40 hexadecimal digits; empty: the answer has none
  std::string architecture;    // "llama", as the hub read it from a GGUF file; empty: unknown
  std::vector<HubFile> files;  // only files with safe paths
};

/// The URL of the repository's description. endpoint: without a trailing slash.
std::string repository_url(std::string_view endpoint, const HubReference& reference);
/// The URL of a file. revision: a commit, so that all parts come from the same one.
std::string file_url(std::string_view endpoint, const HubReference& reference, std::string_view revision,
                     std::string_view path);

/// Throws PullError (a sentence that begins with `id`) if the text does not describe a repository.
HubRepository parse_repository(std::string_view json, const std::string& id);

/// Why the hub refused: a sentence for status 401, 403, 404 and others. error_code: the X-Error-Code header;
/// may be empty.
std::string refusal_text(const std::string& what, int status, std::string_view error_code, bool had_token);

/// The hub's address without trailing slashes. Throws ReferenceError if it is not an http or https URL with a
/// host.
std::string checked_endpoint(std::string_view url);

}  // namespace hearth
