// What a user may name a model by: a file, hf:OWNER/REPO, a URL, or a short name.
//
// Pure text; any thread. Everything that becomes part of a path or of a URL is checked here, so that no name leads out of
// the store's folder.
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

/// A GGUF file at a URL of http or https.
struct UrlReference {
  std::string url;
  std::string host;       // with the port, if it is not the scheme's: "example.org", "127.0.0.1_8000"
  std::string file_name;  // the last part of its path, ends in .gguf
};

/// A word without a slash: a known model, or one that was pulled.
struct NameReference {
  std::string name;
};

/// Anything else: the path of a file.
struct PathReference {
  std::string path;
};

using ModelReference = std::variant<PathReference, NameReference, HubReference, UrlReference>;

/// hf:OWNER/REPO[@REVISION][:QUANT|:FILE.gguf] and http(s)://... are what they look like; pages of a model on
/// huggingface.co and hf.co count as hub references, with https:// before them or without. A word of letters, digits, '.', '_', '-' that does not end in .gguf is
/// a name, and everything else a path. Throws ReferenceError for an hf: or a URL that is none.
ModelReference parse_model_reference(std::string_view text);

/// Whether `path` (of the hub, with '/') is safe below a folder: no empty part, none that begins with a dot or has more
/// than 200 bytes, no control characters, UTF-8, at most 512 bytes.
bool is_safe_path(std::string_view path);

/// A part of a URL's path with everything but letters, digits and "-._~" as %XX; '/' stays if keep_slashes.
std::string url_encoded(std::string_view text, bool keep_slashes);

/// The text in lower case (ASCII).
std::string lower_case(std::string_view text);

}  // namespace hearth
