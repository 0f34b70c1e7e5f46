// See the header.
#include "server/models/running_server.h"

#include <optional>
#include <stdexcept>

#include "config/invocation.h"
#include "server/http/connection/listen_socket.h"
#include "server/json/json.h"

namespace hearth {
namespace {

constexpr size_t kMostAnswerBytes = 1 << 20;  // of GET /v1/models; usually, it has a few hundred bytes

struct Answer {
  int status = 0;
  std::string body;
};

/// Returns nullopt if there is no answer, and sets `why`.
std::optional<Answer> get(const std::string& url, const RequestOptions& options, std::string& why) {
  Answer answer;
  Exchange exchange;
  const CURLcode code = exchange.request(
      url, 0, options,
      [&answer](const TransferHead&, std::string_view bytes) {
        answer.body += bytes;
        return answer.body.size() <= kMostAnswerBytes;
      },
      [] {});
  answer.status = exchange.head().status;
  if (code == CURLE_OK) return answer;
  why = exchange.failure(code);
  return std::nullopt;
}

/// Returns the URL without a path: users may give the one with /v1 too.
std::string base_of(std::string url) {
  while (url.ends_with('/')) url.pop_back();
  if (url.ends_with("/v1")) url.resize(url.size() - 3);
  if (!url.starts_with("http://") && !url.starts_with("https://"))
    throw ConfigError("--url '" + url + "': expected an address such as http://127.0.0.1:8080");
  return url;
}

std::string host_of(const std::string& url) {
  const std::string origin = origin_of(url);  // always has a port
  const size_t begin = origin.find("://") + 3;
  return origin.substr(begin, origin.rfind(':') - begin);
}

/// Fills the name and the context of the first model that generates. Returns false if there is none.
bool read_models(const std::string& body, RunningServer& server) {
  const Json json = Json::parse(body, nullptr, false);
  if (!json.is_object() || !json.contains("data") || !json["data"].is_array()) return false;
  for (const Json& model : json["data"]) {
    if (!model.is_object() || !model.value("generates", false)) continue;
    const auto id = model.find("id"), context = model.find("max_model_len");
    if (id == model.end() || !id->is_string() || context == model.end() || !context->is_number_integer())
      continue;
    server.name = id->get<std::string>();
    server.context = context->get<int64_t>();
    return true;
  }
  return false;
}

}  // namespace

RunningServer find_server(const std::string& given, const std::string& key) {
  const std::string url = base_of(given);
  RunningServer server;
  server.url = url;
  const std::string target = url + "/v1/models";
  RequestOptions options = request_options(server, "");
  std::string why;
  std::optional<Answer> answer = get(target, options, why);
  if (answer && answer->status == 401) {
    server.needs_key = true;
    options.token = key;
    if (!key.empty()) answer = get(target, options, why);
  }
  if (!answer) {
    throw std::runtime_error("no server answers at " + url + " (" + why +
                             "); start it with 'hearthd FILE|NAME', or name its address with --url");
  }
  if (answer->status == 401) {
    throw std::runtime_error(
        "the server at " + url + " requires an API key" +
        (key.empty() ? "" : ", and refuses the one in HEARTH_API_KEY") +
        "; set HEARTH_API_KEY to a key of the server for this command and for the client");
  }
  if (answer->status == 503)
    throw std::runtime_error("the server at " + url + " is loading its model; try again when it is ready");
  if (answer->status != 200 || !read_models(answer->body, server)) {
    throw std::runtime_error("the server at " + url + " names no model that generates text (HTTP status " +
                             std::to_string(answer->status) + "); expected a hearthd that serves one");
  }
  return server;
}

RequestOptions request_options(const RunningServer& server, const std::string& key) {
  RequestOptions options;
  options.endpoint = server.url;
  options.local = is_loopback(host_of(server.url));
  if (server.needs_key) options.token = key;
  return options;
}

}  // namespace hearth
