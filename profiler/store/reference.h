// Parses the names with which users refer to models: a file, hf:OWNER/REPO, a URL, or a short name.
//
// Pure functions; any thread may call them. Each part of a name that becomes part of a path or URL is
// checked, so that no name refers to a file outside the store's folder.
#pragma once

#include <stdexcept>
#include <string>
#include <string_view>
#include <variant>

namespace hearth {

/// The message is one sentence with the error in a name and the expected form.
class ReferenceError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// A model in a repository on the hub.
struct HubReference {
  std::string owner, repository;
  std::string revision;  // branch, tag or commit; empty: the default branch
  std::string file;      // path of a .gguf file in the repository, or empty
  std::string quant;     // for example "Q4_K_M", in upper or lower case; or empty
  std::string id() const { return owner + "/" + repository; }
};

/// A GGUF file at an http or https URL.
struct UrlReference {
  std::string url;
  std::string host;       // with a port that is not the default: "example.org", "127.0.0.1_8000"
  std::string file_name;  // last segment of the URL's path; ends with .gguf
};

/// A word without a slash: the name of a known model, or of a model in the store. NAME:TAG, as Ollama writes
/// names, is a word too.
struct NameReference {
  std::string name;
};

/// The path of a file. This is every text that is not another kind of reference.
struct PathReference {
  std::string path;
};

using ModelReference = std::variant<PathReference, NameReference, HubReference, UrlReference>;

/// Parses a reference. Texts of the form hf:OWNER/REPO[@REVISION][:QUANT|:FILE.gguf], and model pages on
/// huggingface.co and hf.co with or without https://, are hub references. Other texts that begin with http://
/// or https:// are URL references. A word of letters, digits, '.', '_' and '-' that does not end with .gguf
/// is a name; it may have a colon in it. Every other text is a path. Throws ReferenceError if an hf:
/// reference or a URL is malformed.
ModelReference parse_model_reference(std::string_view text);

/// Whether a path from the hub, with '/', is safe below a folder. No segment may be empty, begin with a dot
/// or exceed 200 bytes. The path must be valid UTF-8 of at most 512 bytes without control characters.
bool is_safe_path(std::string_view path);

/// Percent-encodes a part of a URL's path. Letters, digits and "-._~" are not encoded; if keep_slashes, '/'
/// is not encoded either.
std::string url_encoded(std::string_view text, bool keep_slashes);

/// Returns the text with ASCII letters in lower case.
std::string lower_case(std::string_view text);

}  // namespace hearth
