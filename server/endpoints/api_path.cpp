// See the header.
#include "server/endpoints/api_path.h"

namespace hearth {
namespace {

constexpr std::string_view kDeployments = "/openai/deployments/";
constexpr std::string_view kAzureV1 = "/openai/v1/";

/// path: "NAME/ENDPOINT", the text after "/openai/deployments/". NAME may contain slashes, so ENDPOINT is
/// read from the end of the path. It is "chat/completions" or the last segment.
ApiPath read_deployment(std::string_view path) {
  constexpr std::string_view kChat = "/chat/completions";
  const size_t end = path.ends_with(kChat) ? path.size() - kChat.size() : path.rfind('/');
  if (end == std::string_view::npos || end == 0) return {};
  return {path.substr(end), path.substr(0, end)};
}

}  // namespace

ApiPath read_api_path(std::string_view path) {
  if (path.starts_with(kDeployments)) {
    const ApiPath azure = read_deployment(path.substr(kDeployments.size()));
    return azure.endpoint.empty() ? ApiPath{path, {}} : azure;
  }
  if (path.starts_with(kAzureV1)) path.remove_prefix(std::string_view("/openai").size());
  while (path.starts_with("/v1/")) path.remove_prefix(std::string_view("/v1").size());
  return {path, {}};
}

ErrorStyle error_style(const HttpRequest& request) {
  if (request.path.starts_with("/api/")) return ErrorStyle::kOllama;
  const std::string_view endpoint = read_api_path(request.path).endpoint;
  const bool anthropics = endpoint == "/messages" || endpoint.starts_with("/messages/") ||
                          !request.header("anthropic-version").empty();
  return anthropics ? ErrorStyle::kAnthropic : ErrorStyle::kOpenAi;
}

}  // namespace hearth
