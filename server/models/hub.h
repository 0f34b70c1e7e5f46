// Hugging Face's hub as far as pulling needs it: where a repository's list of files is, what is in it, where a file is, and
// what its refusals mean. Text in, values out; knows no network. Any thread.
//
// API: https://huggingface.co/docs/hub/api, GET /api/models/OWNER/REPO[/revision/REV]?blobs=true. Every byte of an answer
// may be hostile: the hub, a mirror, or somebody between.
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "server/models/reference.h"

namespace hearth {

/// One sentence: what kept a pull from succeeding.
class PullError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// The network or the server kept it: the same pull may succeed later, without anybody doing anything.
class PassingPullError : public PullError {
 public:
  using PullError::PullError;
};

inline constexpr std::string_view kHuggingFace = "https://huggingface.co";

struct HubFile {
  std::string path;    // in the repository, is_safe_path()
  uint64_t size = 0;   // bytes; 0: the hub does not tell
  std::string sha256;  // lower case; empty: the file is small and has none
  bool operator==(const HubFile&) const = default;
};

struct HubRepository {
  std::string commit;          // 40 hexadecimal digits; empty: the answer has none
  std::string architecture;    // "llama", as the hub read it from a GGUF file; empty: unknown
  std::vector<HubFile> files;  // those whose paths are safe
};

/// The URL of the repository's description. endpoint: without a slash at its end.
std::string repository_url(std::string_view endpoint, const HubReference& reference);
/// The URL of a file. revision: a commit, so that all parts are of the same one.
std::string file_url(std::string_view endpoint, const HubReference& reference, std::string_view revision,
                     std::string_view path);

/// Throws PullError (one sentence that begins with `id`) if the text is no description of a repository.
HubRepository parse_repository(std::string_view json, const std::string& id);

/// Why the hub refused: a sentence for status 401, 403, 404 and others. error_code: the header X-Error-Code; may be empty.
std::string refusal_text(const std::string& what, int status, std::string_view error_code, bool had_token);

/// The hub's address without slashes at its end. Throws ReferenceError if it is no URL of http or https with a host.
std::string checked_endpoint(std::string_view url);

}  // namespace hearth
