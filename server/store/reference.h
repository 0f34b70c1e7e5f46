// Parses the names that a user may give a model: a file, hf:OWNER/REPO, a URL, or a short name.
//
// Pure text functions; any thread. Everything that becomes part of a path or URL is checked here, so that no
// name leads out of the store's folder.
#pragma once

#include <stdexcept>
#include <string>
#include <string_view>
#include <variant>

namespace hearth {

/// One sentence: what is wrong with a name, and what is expected.
class ReferenceError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// A model of a repository on the hub.
struct HubReference {
  std::string owner, repository;
  std::string revision;  // branch, tag or commit; empty: the default branch
  std::string file;      // path of a .gguf file in the repository; empty: not named
  std::string quant;     // "Q4_K_M", in any case; empty: not named
  std::string id() const { return owner + "/" + repository; }
};

/// A GGUF file at an http or https URL.
struct UrlReference {
  std::string url;
  std::string host;       // with a port that is not the scheme's: "example.org", "127.0.0.1_8000"
  std::string file_name;  // last segment of the path, ends in .gguf
};

/// A word without a slash: a known model, or one in the store.
struct NameReference {
  std::string name;
};

/// Anything else: the path of a file.
struct PathReference {
  std::string path;
};

using ModelReference = std::variant<PathReference, NameReference, HubReference, UrlReference>;

/// Texts of the form hf:OWNER/REPO[@REVISION][:QUANT|:FILE.gguf] and http(s)://... are hub and URL
/// references; model pages on huggingface.co and hf.co are hub references, with or without https://. A word
/// of letters, digits, '.', '_', '-' that does not end in .gguf is a name. Everything else is a path. Throws
/// ReferenceError for a malformed hf: reference or URL.
ModelReference parse_model_reference(std::string_view text);

/// Whether `path` (from the hub, with '/') is safe below a folder: no part is empty, begins with a dot or
/// exceeds 200 bytes; no control characters; valid UTF-8; at most 512 bytes.
bool is_safe_path(std::string_view path);

/// Percent-encodes a part of a URL's path, except letters, digits and "-._~", and '/' if keep_slashes.
std::string url_encoded(std::string_view text, bool keep_slashes);

/// The text in lower case (ASCII).
std::string lower_case(std::string_view text);

}  // namespace hearth
