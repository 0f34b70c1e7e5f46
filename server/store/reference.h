// Parses the names by which a user may refer to a model: a file, hf:OWNER/REPO, a URL, or a short name.
//
// Pure text functions; any thread. Every part of a name that becomes part of a path or URL is checked here,
// so that no name leads out of the store's folder.
#pragma once

#include <stdexcept>
#include <string>
#include <string_view>
#include <variant>

namespace hearth {

/// One sentence that states what is wrong with a name and what is expected.
class ReferenceError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// A model in a repository on the hub.
struct HubReference {
  std::string owner, repository;
  std::string revision;  // branch, tag or commit; empty for the default branch
  std::string file;      // path of a .gguf file in the repository; empty if not given
  std::string quant;     // "Q4_K_M", in upper or lower case; empty if not given
  std::string id() const { return owner + "/" + repository; }
};

/// A GGUF file at an http or https URL.
struct UrlReference {
  std::string url;
  std::string host;       // includes a non-default port: "example.org", "127.0.0.1_8000"
  std::string file_name;  // last segment of the path; ends in .gguf
};

/// A word without a slash: the name of a known model or of a model in the store.
struct NameReference {
  std::string name;
};

/// Any other text: the path of a file.
struct PathReference {
  std::string path;
};

using ModelReference = std::variant<PathReference, NameReference, HubReference, UrlReference>;

/// Parses a reference. Texts of the form hf:OWNER/REPO[@REVISION][:QUANT|:FILE.gguf] and model pages on
/// huggingface.co and hf.co, with or without https://, are hub references. Other http(s)://... texts are URL
/// references. A word of letters, digits, '.', '_' and '-' that does not end in .gguf is a name. Everything
/// else is a path. Throws ReferenceError if an hf: reference or a URL is malformed.
ModelReference parse_model_reference(std::string_view text);

/// Whether `path` (from the hub, with '/') is safe below a folder. No part may be empty, begin with a dot or
/// exceed 200 bytes. The path must be valid UTF-8 of at most 512 bytes without control characters.
bool is_safe_path(std::string_view path);

/// Percent-encodes a part of a URL's path. Keeps letters, digits and "-._~", and also '/' if keep_slashes is
/// true.
std::string url_encoded(std::string_view text, bool keep_slashes);

/// Returns the text in lower case (ASCII).
std::string lower_case(std::string_view text);

}  // namespace hearth
