// See the header.
#include "profiler/store/hub.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "kernels/base/file_error.h"

namespace hearth {
namespace {

// nlohmann::json sorts keys. With ordered_json, a malicious object with many keys would take quadratic time.
using HubJson = nlohmann::json;

constexpr size_t kMostFiles = 100'000;

std::string text_at(const HubJson& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_string() ? found->get<std::string>() : std::string();
}

uint64_t size_at(const HubJson& object, const char* key) {
  const auto found = object.find(key);
  if (found == object.end() || !found->is_number_unsigned()) return 0;
  const uint64_t size = found->get<uint64_t>();
  return size <= kMostFileBytes ? size : 0;
}

bool is_commit(std::string_view text) {
  return text.size() >= 7 && text.size() <= 64 &&
         std::ranges::all_of(text, [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); });
}

HubFile file_of(const HubJson& sibling) {
  HubFile file;
  file.path = text_at(sibling, "rfilename");
  file.size = size_at(sibling, "size");
  const auto lfs = sibling.find("lfs");
  if (lfs == sibling.end() || !lfs->is_object()) return file;
  if (const uint64_t size = size_at(*lfs, "size")) file.size = size;
  std::string sha256 = text_at(*lfs, "sha256");
  if (sha256.empty()) sha256 = text_at(*lfs, "oid");  // the name in the hub's lists of folders
  if (sha256.starts_with("sha256:")) sha256.erase(0, 7);
  if (is_sha256(sha256)) file.sha256 = lower_case(sha256);
  return file;
}

}  // namespace

bool is_sha256(std::string_view text) {
  return text.size() == 64 && std::ranges::all_of(text, [](char c) {
           return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
         });
}

std::string repository_url(std::string_view endpoint, const HubReference& reference) {
  std::string url = std::string(endpoint) + "/api/models/" + reference.id();
  if (!reference.revision.empty()) url += "/revision/" + url_encoded(reference.revision, false);
  return url + "?blobs=true";
}

std::string file_url(std::string_view endpoint, const HubReference& reference, std::string_view revision,
                     std::string_view path) {
  return std::string(endpoint) + "/" + reference.id() + "/resolve/" + url_encoded(revision, false) + "/" +
         url_encoded(path, true);
}

HubRepository parse_repository(std::string_view json, const std::string& id) {
  const HubJson answer = HubJson::parse(json, nullptr, false);
  const auto siblings = answer.is_object() ? answer.find("siblings") : answer.end();
  if (!answer.is_object() || siblings == answer.end() || !siblings->is_array()) {
    throw PullError(id + ": the hub's answer does not describe a repository (" +
                    file_error::quoted(json.substr(0, 200), 80) + "); is --endpoint the address of a hub?");
  }
  HubRepository repository;
  repository.commit = text_at(answer, "sha");
  if (!is_commit(repository.commit)) repository.commit.clear();
  if (const auto gguf = answer.find("gguf"); gguf != answer.end() && gguf->is_object())
    repository.architecture = text_at(*gguf, "architecture");
  for (const HubJson& sibling : *siblings) {
    if (!sibling.is_object() || repository.files.size() >= kMostFiles) continue;
    HubFile file = file_of(sibling);
    if (is_safe_path(file.path)) repository.files.push_back(std::move(file));
  }
  return repository;
}

std::string refusal_text(const std::string& what, int status, std::string_view error_code, bool had_token) {
  if (error_code == "GatedRepo") {
    return what + ": access to the model is restricted: accept the terms on its page, then pull with your " +
           "token (--token-file, HF_TOKEN)" +
           (had_token ? "; the token that was sent has no access yet" : "");
  }
  if (error_code == "RevisionNotFound") return what + ": the repository has no such revision";
  if (status == 401 || status == 403) {
    return what + (had_token
                       ? ": the hub refuses the token that was sent, or has no such repository"
                       : ": the hub wants a token for it, or has no such repository; check the name, or give "
                         "a token (--token-file, HF_TOKEN)");
  }
  if (status == 404) return what + ": the hub has no such repository or file; check the name";
  return what + ": the hub answered status " + std::to_string(status);
}

std::string checked_endpoint(std::string_view url) {
  const std::string scheme = lower_case(url.substr(0, 8));
  const size_t host_at = scheme.starts_with("https://") ? 8 : scheme.starts_with("http://") ? 7 : 0;
  const std::string_view host = url.substr(host_at, url.find_first_of("/?#", host_at) - host_at);
  const bool plain = std::ranges::all_of(url, [](char c) { return c > ' ' && c < 0x7f; });
  if (host_at == 0 || host.empty() || !plain || url.find_first_of("?#@") != std::string_view::npos) {
    throw ReferenceError("the endpoint " + file_error::quoted(url) +
                         " is not the address of a hub; expected one like https://huggingface.co");
  }
  while (url.ends_with('/')) url.remove_suffix(1);
  return std::string(url);
}

}  // namespace hearth
