// The parts of Hugging Face's API that pulling needs: URLs of file lists and files, parsing of lists, and
// error messages for refused requests. Converts text to values and does not use the network. Any thread.
//
// API: https://huggingface.co/docs/hub/api, GET /api/models/OWNER/REPO[/revision/REV]?blobs=true. An answer
// may contain anything, because it may come from a malicious hub, mirror or intermediary.
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "server/store/reference.h"

namespace hearth {

/// One sentence that explains why a pull failed.
class PullError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// A temporary failure of the network or the server. The same pull may succeed later without any change.
class PassingPullError : public PullError {
 public:
  using PullError::PullError;
};

inline constexpr std::string_view kHuggingFace = "https://huggingface.co";

/// No model is larger. Larger sizes are rejected before they are used to allocate or compute.
inline constexpr uint64_t kMostFileBytes = uint64_t{1} << 50;

/// Whether the text is a SHA-256: 64 hexadecimal digits, in either case.
bool is_sha256(std::string_view text);

struct HubFile {
  std::string path;    // path in the repository; satisfies is_safe_path()
  uint64_t size = 0;   // in bytes; 0 if the hub does not report it
  std::string sha256;  // in lower case; empty for a small file, whose checksum the hub does not give
  bool operator==(const HubFile&) const = default;
};

struct HubRepository {
  std::string commit;          // 40 hexadecimal digits; empty if the answer has no commit
  std::string architecture;    // "llama", as the hub read it from a GGUF file; empty if unknown
  std::vector<HubFile> files;  // only those with safe paths
};

/// Returns the URL of the repository's description. endpoint: the hub's address without a trailing slash.
std::string repository_url(std::string_view endpoint, const HubReference& reference);
/// Returns the URL of a file. revision: a commit, so that all parts of a model come from the same commit.
std::string file_url(std::string_view endpoint, const HubReference& reference, std::string_view revision,
                     std::string_view path);

/// Parses the repository's description. Throws PullError, whose text begins with `id`, if `json` is not such
/// a description.
HubRepository parse_repository(std::string_view json, const std::string& id);

/// Returns a sentence that explains why the hub refused a request, for status 401, 403, 404 and others.
/// error_code: the X-Error-Code header, or empty.
std::string refusal_text(const std::string& what, int status, std::string_view error_code, bool had_token);

/// Returns the hub's address without trailing slashes. Throws ReferenceError if it is not an http or https
/// URL with a host.
std::string checked_endpoint(std::string_view url);

}  // namespace hearth
