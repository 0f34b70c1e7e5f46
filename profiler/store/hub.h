// The parts of Hugging Face's API that downloads need: URLs, parsing of repository descriptions, and error
// messages. Does not use the network. Any thread may call these functions.
//
// API: https://huggingface.co/docs/hub/api, GET /api/models/OWNER/REPO[/revision/REV]?blobs=true. Answers are
// not trusted, because the hub, a mirror or an intermediary may be malicious.
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "profiler/store/reference.h"

namespace hearth {

/// The message is one sentence that explains why a download failed.
class PullError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// A temporary failure of the network or the server. The download may succeed later.
class PassingPullError : public PullError {
 public:
  using PullError::PullError;
};

inline constexpr std::string_view kHuggingFace = "https://huggingface.co";

/// Every model is smaller. Larger sizes are rejected before they are used to allocate memory or to compute.
inline constexpr uint64_t kMostFileBytes = uint64_t{1} << 50;

/// Whether the text is a SHA-256, written as 64 hexadecimal digits in upper or lower case.
bool is_sha256(std::string_view text);

struct HubFile {
  std::string path;    // path in the repository; is_safe_path() is true for it
  uint64_t size = 0;   // 0 if the hub does not report it
  std::string sha256;  // in lower case; empty for small files, whose checksums the hub does not report
  bool operator==(const HubFile&) const = default;
};

struct HubRepository {
  std::string commit;          // 40 hexadecimal digits, or empty
  std::string architecture;    // as read by the hub from a GGUF file, for example "llama"; empty if unknown
  std::vector<HubFile> files;  // only files with safe paths
};

/// Returns the URL of a repository's description. endpoint: the hub's URL without a trailing slash.
std::string repository_url(std::string_view endpoint, const HubReference& reference);
/// Returns the URL of a file. revision: a commit, so that all parts of a model have one commit.
std::string file_url(std::string_view endpoint, const HubReference& reference, std::string_view revision,
                     std::string_view path);

/// Parses the description of a repository. Throws PullError, whose text begins with `id`, if `json` has a
/// different form.
HubRepository parse_repository(std::string_view json, const std::string& id);

/// Returns the error message for a request that the hub refused. error_code: the X-Error-Code header, or
/// empty.
std::string refusal_text(const std::string& what, int status, std::string_view error_code, bool had_token);

/// Returns the hub's URL without trailing slashes. Throws ReferenceError if it is not an http or https URL
/// with a host.
std::string checked_endpoint(std::string_view url);

}  // namespace hearth
