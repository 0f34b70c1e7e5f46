// See the header.
#include "profiler/store/reference.h"

#include <algorithm>
#include <vector>

#include "kernels/base/file_error.h"

namespace hearth {
namespace {

constexpr size_t kMostNameBytes = 96;  // the hub's limit for names of repositories
constexpr size_t kMostPathBytes = 512;
// Longest path segment in bytes. File systems allow 255 bytes, but names derived from a segment are longer
// (".FILE.origin", "FILE.state.new").
constexpr size_t kMostPartBytes = 200;
constexpr std::string_view kForm = "hf:OWNER/REPO, hf:OWNER/REPO:QUANT or hf:OWNER/REPO:FILE.gguf";

bool is_plain(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9'); }

/// Whether the text is a valid name of an owner, repository or quantization on the hub.
bool is_hub_name(std::string_view name) {
  const auto allowed = [](char c) { return is_plain(c) || c == '-' || c == '_' || c == '.'; };
  return !name.empty() && name.size() <= kMostNameBytes && name.front() != '.' && name.front() != '-' &&
         std::ranges::all_of(name, allowed) && name.find("..") == std::string_view::npos;
}

bool is_revision(std::string_view revision) {
  return is_safe_path(revision) && std::ranges::all_of(revision, [](char c) {
           return is_plain(c) || c == '-' || c == '_' || c == '.' || c == '/';
         });
}

bool ends_in_gguf(std::string_view text) {
  return text.size() > 5 && lower_case(text.substr(text.size() - 5)) == ".gguf";
}

[[noreturn]] void refuse(std::string_view text, const std::string& why) {
  throw ReferenceError(file_error::quoted(text, kMostPathBytes) + ": " + why);
}

HubReference parse_hub(std::string_view text, std::string_view rest) {
  HubReference hub;
  const size_t colon = rest.find(':');
  std::string_view id = rest.substr(0, colon);
  if (colon != std::string_view::npos) {
    const std::string_view chosen = rest.substr(colon + 1);
    if (ends_in_gguf(chosen)) {
      if (!is_safe_path(chosen)) refuse(text, "the file's path is not valid in a repository");
      hub.file = chosen;
    } else if (is_hub_name(chosen)) {
      hub.quant = chosen;
    } else {
      refuse(text, "after the colon goes a quantization, such as Q4_K_M, or a file that ends in .gguf");
    }
  }
  if (const size_t at = id.find('@'); at != std::string_view::npos) {
    hub.revision = id.substr(at + 1);
    if (!is_revision(hub.revision)) refuse(text, "after the @ goes a branch, a tag or a commit");
    id = id.substr(0, at);
  }
  const size_t slash = id.find('/');
  if (slash == std::string_view::npos) refuse(text, "expected " + std::string(kForm));
  hub.owner = id.substr(0, slash);
  hub.repository = id.substr(slash + 1);
  if (!is_hub_name(hub.owner) || !is_hub_name(hub.repository))
    refuse(text, "that is not a repository's name; expected " + std::string(kForm));
  return hub;
}

int hex_digit(char c) {
  return c >= '0' && c <= '9'   ? c - '0'
         : c >= 'a' && c <= 'f' ? c - 'a' + 10
         : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                : -1;
}

std::string url_decoded(std::string_view text) {
  std::string plain;
  for (size_t i = 0; i < text.size(); ++i) {
    const bool escaped =
        text[i] == '%' && i + 2 < text.size() && hex_digit(text[i + 1]) >= 0 && hex_digit(text[i + 2]) >= 0;
    plain += escaped ? static_cast<char>(hex_digit(text[i + 1]) * 16 + hex_digit(text[i + 2])) : text[i];
    if (escaped) i += 2;
  }
  return plain;
}

/// Parses the URL of a page on the hub: OWNER/REPO[/tree|blob|resolve/REVISION[/FILE]].
HubReference parse_page(std::string_view text, std::string_view path) {
  std::vector<std::string> parts;
  while (!path.empty()) {
    const size_t slash = path.find('/');
    if (slash != 0) parts.push_back(url_decoded(path.substr(0, slash)));
    path = slash == std::string_view::npos ? std::string_view() : path.substr(slash + 1);
  }
  if (parts.size() < 2)
    refuse(text, "that is not a model's page; expected https://huggingface.co/OWNER/REPO");
  std::string reference = parts[0] + "/" + parts[1];
  if (parts.size() >= 4 && parts[3] != "main") reference += "@" + parts[3];
  std::string file;
  for (size_t i = 4; i < parts.size(); ++i) file += (file.empty() ? "" : "/") + parts[i];
  if (ends_in_gguf(file)) reference += ":" + file;
  return parse_hub(text, reference);
}

std::variant<HubReference, UrlReference> parse_url(std::string_view text) {
  if (!std::ranges::all_of(text, [](char c) { return c > ' ' && c < 0x7f; }) || text.size() > 8192)
    refuse(text, "a URL has no blanks and no letters beyond ASCII; write those as %XX");
  const size_t host_at = text.find("://") + 3;
  const size_t host_end = std::min(text.find_first_of("/?#", host_at), text.size());
  std::string host = lower_case(text.substr(host_at, host_end - host_at));
  if (host.find('@') != std::string::npos)
    refuse("(a URL)", "names and passwords in a URL are not accepted, because they end up in logs");
  if (host.empty()) refuse(text, "the URL has no host");
  std::string_view path = text.substr(host_end);
  path = path.substr(0, path.find_first_of("?#"));
  if (host == "huggingface.co" || host == "hf.co" || host == "www.huggingface.co")
    return parse_page(text, path);
  UrlReference url;
  url.url = text.substr(0, text.find('#'));
  url.file_name = url_decoded(path.substr(std::min(path.rfind('/') + 1, path.size())));
  if (!ends_in_gguf(url.file_name) || !is_safe_path(url.file_name) ||
      url.file_name.find('/') != std::string::npos)
    refuse(text, "the URL must lead to a file that ends in .gguf");
  std::ranges::replace_if(
      host, [](char c) { return !is_plain(c) && c != '.' && c != '-'; }, '_');
  url.host = host.front() == '.' ? "_" + host : host;
  return url;
}

}  // namespace

bool is_safe_path(std::string_view path) {
  if (path.empty() || path.size() > kMostPathBytes || path.back() == '/') return false;
  // file_label() escapes control characters and invalid UTF-8.
  if (file_error::file_label(path) != path) return false;
  size_t n_part = 0;
  for (const char c : path) {
    if (n_part == 0 && (c == '.' || c == '/')) return false;
    if (c == '\\' || (c != '/' && n_part >= kMostPartBytes)) return false;
    n_part = c == '/' ? 0 : n_part + 1;
  }
  return true;
}

std::string url_encoded(std::string_view text, bool keep_slashes) {
  constexpr std::string_view kDigits = "0123456789ABCDEF";
  std::string encoded;
  for (const char c : text) {
    const unsigned char byte = static_cast<unsigned char>(c);
    if (is_plain(c) || c == '-' || c == '.' || c == '_' || c == '~' || (keep_slashes && c == '/')) {
      encoded += c;
    } else {
      encoded += {'%', kDigits[byte >> 4], kDigits[byte & 15]};
    }
  }
  return encoded;
}

std::string lower_case(std::string_view text) {
  std::string lower(text);
  for (char& c : lower) c = static_cast<char>(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
  return lower;
}

ModelReference parse_model_reference(std::string_view text) {
  if (text.starts_with("hf:")) return parse_hub(text, text.substr(3));
  const std::string scheme = lower_case(text.substr(0, 8));
  if (scheme.starts_with("https://") || scheme.starts_with("http://"))
    return std::visit([](auto&& found) -> ModelReference { return found; }, parse_url(text));
  // Other programs write references in this form.
  for (const std::string_view site : {"hf.co/", "huggingface.co/"})
    if (text.starts_with(site)) return parse_page(text, text.substr(site.size()));
  const size_t colon = text.find(':');
  const bool has_tag = colon != std::string_view::npos;
  if (is_hub_name(text.substr(0, colon)) && (!has_tag || is_hub_name(text.substr(colon + 1))) &&
      !ends_in_gguf(text))
    return NameReference{std::string(text)};
  return PathReference{std::string(text)};
}

}  // namespace hearth
