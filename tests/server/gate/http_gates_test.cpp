// The layers between transport and handlers: keys, web pages' origins, health, log lines, the service
// manager.
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "server/api/server_state.h"
#include "server/endpoints/api_path.h"
#include "server/gate/auth.h"
#include "server/gate/content_type.h"
#include "server/gate/cors.h"
#include "server/gate/own_page.h"
#include "server/gate/routes.h"
#include "server/http/http_server.h"
#include "server/process/healthcheck.h"
#include "server/process/service_manager.h"
#include "tests/server/gate/asked.h"
#include "tests/support/catch.h"
#include "tests/support/manual_clock.h"

using namespace hearth;
using std::chrono::seconds;

namespace {

/// An engine that only has a status.
struct StatusOnly final : TokenGenerator {
  EngineStatus now;
  std::variant<std::shared_ptr<TokenStream>, Refusal> submit(GenerationRequest) override {
    FAIL("no request was expected");
    return nullptr;
  }
  EngineStatus status() const override { return now; }
};

HttpRequest gated_request(std::vector<std::pair<std::string, std::string>> headers) {
  HttpRequest request;
  request.headers = std::move(headers);
  return request;
}

std::string header_of(const HttpResponse& response, const std::string& name) {
  for (const auto& [key, value] : response.headers) {
    if (key == name) return value;
  }
  return "absent";
}

std::string gate_file(const std::string& name) {
  return (std::filesystem::temp_directory_path() / ("hearth-" + name + std::to_string(::getpid()))).string();
}

}  // namespace

TEST_CASE("by default pages of this machine may call, others may not") {
  const CorsPolicy policy({});
  for (const std::string origin : {"http://localhost", "http://localhost:3000", "https://127.0.0.1:8443",
                                   "http://[::1]:3000", "http://app.localhost:1"}) {
    INFO(origin);
    CHECK(policy.allows(origin, "192.0.2.1"));
  }
  for (const std::string origin : {"http://evil.com", "http://localhost.evil.com",
                                   "http://localhost@evil.com", "null", "", "http://127.0.0.1.evil.com:80",
                                   "http://evil.com/localhost", "app:", "http://app://", "ftp://localhost"}) {
    INFO(origin);
    CHECK_FALSE(policy.allows(origin, "127.0.0.1"));
  }
  CHECK(CorsPolicy({"*"}).allows("http://evil.com", "192.0.2.1"));
  CHECK_FALSE(CorsPolicy({"none"}).allows("http://localhost", "127.0.0.1"));
  CHECK(CorsPolicy({"https://a.org"}).allows("https://a.org", "192.0.2.1"));
  CHECK_FALSE(CorsPolicy({"https://a.org"}).allows("http://a.org", "127.0.0.1"));
}

TEST_CASE("by default frontends of desktop programs and editors on this machine may call") {
  const CorsPolicy policy({});
  for (const std::string origin :
       {"app://-", "app://obsidian.md", "tauri://localhost", "vscode-webview://0a1b2c", "file://"}) {
    INFO(origin);
    for (const std::string address : {"127.0.0.1", "127.1.2.3", "::1", "::ffff:127.0.0.1"})
      CHECK(policy.allows(origin, address));
    for (const std::string address : {"192.0.2.1", "::ffff:192.0.2.1", "", "unknown"})
      CHECK_FALSE(policy.allows(origin, address));
    CHECK_FALSE(CorsPolicy({"none"}).allows(origin, "127.0.0.1"));
    CHECK_FALSE(CorsPolicy({"http://localhost:3000"}).allows(origin, "127.0.0.1"));
    CHECK(CorsPolicy({origin}).allows(origin, "192.0.2.1"));
  }
  HttpRequest request = gated_request({{"Origin", "tauri://localhost"}});
  request.remote_address = "127.0.0.1";
  HttpResponse answer = policy.preflight(request);
  policy.allow(request, answer.headers);
  CHECK(header_of(answer, "Access-Control-Allow-Origin") == "tauri://localhost");
  CHECK(header_of(answer, "Access-Control-Allow-Methods") == "GET, POST, DELETE, OPTIONS");
}

TEST_CASE("a path names its endpoint however the base URL is spelled") {
  const auto read = [](std::string_view path) {
    const ApiPath found = read_api_path(path);
    return std::string(found.endpoint) + " of '" + std::string(found.model) + "'";
  };
  for (const std::string before : {"", "/v1", "/v1/v1", "/openai/v1"}) {
    CAPTURE(before);
    CHECK(read(before + "/chat/completions") == "/chat/completions of ''");
    CHECK(read(before + "/models/org/name") == "/models/org/name of ''");
  }
  CHECK(read("/openai/deployments/tiny/chat/completions") == "/chat/completions of 'tiny'");
  CHECK(read("/openai/deployments/tiny/completions") == "/completions of 'tiny'");
  CHECK(read("/openai/deployments/org/tiny/chat/completions") == "/chat/completions of 'org/tiny'");
  CHECK(read("/openai/deployments/tiny/embeddings") == "/embeddings of 'tiny'");
  for (const std::string path :
       {"/", "", "/v1", "/v1x/models", "/openai", "/openai/deployments", "/openai/deployments/",
        "/openai/deployments/tiny", "/openai/deployments//completions"}) {
    CHECK(read(path) == path + " of ''");
  }
}

TEST_CASE("errors have the shape of the path's API, and on shared paths the shape the header asks for") {
  const auto style = [](const std::string& path, bool of_anthropic = false) {
    HttpRequest request = gated_request({});
    if (of_anthropic) request.headers.emplace_back("Anthropic-Version", "2023-06-01");
    request.path = path;
    return error_style(request);
  };
  for (const std::string path : {"/api/chat", "/api/no/such"}) CHECK(style(path) == ErrorStyle::kOllama);
  for (const std::string path : {"/messages", "/v1/messages", "/v1/v1/messages/count_tokens"})
    CHECK(style(path) == ErrorStyle::kAnthropic);
  for (const std::string path : {"", "/", "/api", "/apis/chat", "/v1/api/chat", "/v1/models", "/messagesx"}) {
    CAPTURE(path);
    CHECK(style(path) == ErrorStyle::kOpenAi);
  }
  CHECK(style("/v1/models", true) == ErrorStyle::kAnthropic);
  CHECK(style("/api/tags", true) == ErrorStyle::kOllama);
}

TEST_CASE("an unknown path or method is refused in the shape of the path's API") {
  const ServerState state;
  const MetricsPage metrics(state, "1.2.3");
  const Routes routes(state, metrics, {.auth = Auth({}), .cors = CorsPolicy({})}, admin_answer);
  const auto answer = [&](const std::string& method, const std::string& path) {
    HttpRequest request = gated_request({});
    request.method = method;
    request.path = path;
    request.request_id = "req-1";
    return asked(routes, request);
  };
  CHECK(answer("GET", "/api/nothing").status == 404);
  CHECK_THAT(answer("GET", "/api/nothing").body, ContainsSubstring(R"({"error":"there is no)"));
  CHECK_THAT(answer("PUT", "/api/chat").body, ContainsSubstring(R"({"error":"/api/chat takes POST)"));
  const HttpResponse anthropics = answer("GET", "/v1/messages/batches");
  CHECK(anthropics.status == 404);
  CHECK_THAT(anthropics.body, ContainsSubstring(R"({"type":"error","error":{"type":"not_found_error")"));
  CHECK(header_of(anthropics, "request-id") == "req-1");
  CHECK_THAT(answer("GET", "/nothing").body, ContainsSubstring(R"("code":"unknown_url")"));
}

/// A path that the row of the table matches.
std::string path_of(const Endpoint& endpoint) {
  if (endpoint.path == "/page/*") return "/page/math.js";  // the others do not exist
  std::string path(endpoint.path);
  const size_t star = path.find('*');
  return star == std::string::npos ? path : path.replace(star, 1, "one/two");
}

TEST_CASE("every row of the table is found, admits its method and no other, and says which are taken") {
  const ServerState state;  // loading
  const MetricsPage metrics(state, "1.2.3");
  const Routes routes(state, metrics, {.auth = Auth({}), .cors = CorsPolicy({})}, admin_answer);
  const auto answer = [&](const std::string& method, const std::string& path) {
    HttpRequest request = gated_request({});
    request.remote_address = "127.0.0.1";
    request.method = method;
    request.path = path;
    return asked(routes, request);
  };
  for (const Endpoint& row : endpoints()) {
    const std::string path = path_of(row), method(row.method);
    CAPTURE(method, path);
    CHECK(table_path(path) == row.path);
    const Destination to = find_destination(path, method, row.of_page);
    REQUIRE(to.endpoint != nullptr);
    CHECK(to.endpoint->path == row.path);
    const int status = answer(method, path).status;
    CHECK(status != 404);
    CHECK(status != 405);
    if (row.model != ModelUse::kNone) CHECK(status == 503);  // the model is still loading
    if (method == "GET") CHECK(answer("HEAD", path).status == status);
    const HttpResponse other = answer("PATCH", path);
    CHECK(other.status == 405);
    CHECK_THAT(header_of(other, "Allow"), ContainsSubstring(method) && ContainsSubstring("OPTIONS"));
    CHECK((header_of(other, "Allow").find("HEAD") != std::string::npos) ==
          (find_destination(path, "GET", true).endpoint != nullptr));
    CHECK(answer(method, "/no/such" + path).status == 404);
    // A wider pattern further down takes none of the path's other methods.
    for (const std::string_view tried : {"GET", "POST", "PUT", "DELETE"}) {
      const Endpoint* const found = find_destination(path, tried, row.of_page).endpoint;
      CHECK((found == nullptr || found->path == row.path));
      CHECK((found != nullptr) == std::ranges::any_of(endpoints(), [&](const Endpoint& one) {
              return one.path == row.path && one.method == tried;
            }));
    }
  }
  for (const std::string method : {"GET", "DELETE"}) {
    CHECK(answer(method, "/v1/responses/r/cancel").status == 405);
    CHECK(header_of(answer(method, "/v1/responses/r/cancel"), "Allow") == "POST, OPTIONS");
  }
  CHECK(header_of(answer("PUT", "/v1/responses/r/input_items"), "Allow") == "GET, HEAD, OPTIONS");
  CHECK(header_of(answer("PUT", "/admin/model"), "Allow") == "GET, POST, HEAD, OPTIONS");
  CHECK(header_of(answer("PUT", "/v1/responses/r"), "Allow") == "GET, DELETE, HEAD, OPTIONS");
}

TEST_CASE("with keys, only what everyone may call is answered without one") {
  const ServerState state;
  const MetricsPage metrics(state, "1.2.3");
  const Routes routes(
      state, metrics,
      {.auth = Auth(parse_key_file("alpha\n", "keys")), .cors = CorsPolicy({}), .has_page = false},
      admin_answer);
  for (const Endpoint& row : endpoints()) {
    if (row.of_page) continue;
    for (const std::string& method : {std::string(row.method), std::string("PATCH")}) {
      HttpRequest request = gated_request({});
      request.method = method;
      request.path = path_of(row);
      CAPTURE(method, request.path);
      const Admission admission = routes.admit(request);
      REQUIRE(admission.at_once);  // and so no byte of a body is awaited
      CHECK((admission.at_once->status == 401) == (row.access != Access::kEveryone));
    }
  }
}

TEST_CASE("endpoints that need no model answer while it is loading") {
  const ServerState state;
  const MetricsPage metrics(state, "1.2.3");
  const Routes routes(state, metrics, {.auth = Auth({}), .cors = CorsPolicy({})}, admin_answer);
  const auto status = [&](const std::string& method, const std::string& path) {
    HttpRequest request = gated_request({});
    request.method = method;
    request.path = path;
    return asked(routes, request).status;
  };
  for (const std::string path :
       {"/openapi.json", "/v1/openapi.json", "/api/version", "/", "/livez", "/v1/livez"})
    CHECK(status("GET", path) == 200);
  CHECK(status("HEAD", "/openapi.json") == 200);
  CHECK(status("POST", "/api/pull") == 501);
  for (const std::string path : {"/v1/models", "/api/tags", "/props", "/health", "/v1/health", "/readyz"})
    CHECK(status("GET", path) == 503);
}

TEST_CASE("the page needs no key, but its requests do") {
  const ServerState state;
  const auto answer = [&](bool has_page, const std::string& method, const std::string& path,
                          bool with_key = false) {
    const MetricsPage metrics(state, "1.2.3");
    const Routes routes(
        state, metrics,
        {.auth = Auth(parse_key_file("alpha\n", "keys")), .cors = CorsPolicy({}), .has_page = has_page},
        admin_answer);
    HttpRequest request = gated_request({});
    if (with_key) request.headers.emplace_back("X-Api-Key", "alpha");
    request.method = method;
    request.path = path;
    return asked(routes, request);
  };
  for (const std::string method : {"GET", "HEAD"}) {
    const HttpResponse page = answer(true, method, "/");
    CHECK(page.status == 200);
    CHECK(page.content_type == "text/html; charset=utf-8");
    CHECK_THAT(header_of(page, "Content-Security-Policy"), ContainsSubstring("default-src 'none'"));
  }
  CHECK(answer(true, "GET", "/page/events").status == 401);
  CHECK(answer(true, "POST", "/").status == 401);
  CHECK(answer(false, "GET", "/").status == 401);
  CHECK(answer(true, "GET", "/page/events", true).status == 503);  // the model is still loading
  for (const std::string method : {"GET", "POST"})
    CHECK(answer(false, method, "/page/events", true).status == 404);
}

TEST_CASE("the server's own page may use it, unless its name could also be a stranger's") {
  for (const std::string host :
       {"192.0.2.7:8080", "192.0.2.7", "[2001:db8::7]:8080", "nas:8080", "nas", "localhost:1"}) {
    INFO(host);
    CHECK(is_own_page("http://" + host, host));
    CHECK_FALSE(is_own_page("https://" + host, host));
    CHECK_FALSE(is_own_page("http://" + host, host + "1"));
  }
  for (const std::string host :
       {"evil.example:8080", "evil.example", "nas.:80", "192.0.2.7.evil.example", ""}) {
    INFO(host);
    CHECK_FALSE(is_own_page("http://" + host, host));
  }
  CHECK_FALSE(is_own_page("null", "null"));
  // With TLS, the browser has checked that the server has a certificate for the name.
  for (const std::string host :
       {"hearth.example.org:8080", "hearth.example.org", "10.0.0.7:8080", "hearth"}) {
    CHECK(is_own_page("https://" + host, host, true));
    CHECK_FALSE(is_own_page("http://" + host, host, true));
    CHECK_FALSE(is_own_page("https://attacker.example.org", host, true));
  }
  const ServerState state;
  const MetricsPage metrics(state, "1.2.3");
  const Routes routes(state, metrics, {.auth = Auth({}), .cors = CorsPolicy({})}, admin_answer);
  const auto status = [&](const std::string& origin, const std::string& host) {
    HttpRequest request = gated_request({{"Origin", origin}, {"Host", host}});
    request.method = "GET";
    request.path = "/openapi.json";
    return asked(routes, request).status;
  };
  CHECK(status("http://192.0.2.7:8080", "192.0.2.7:8080") == 200);
  CHECK(status("http://192.0.2.8:8080", "192.0.2.7:8080") == 403);
  CHECK(status("http://evil.example:8080", "evil.example:8080") == 403);
}

TEST_CASE("JSON is accepted under any content type used for it") {
  for (const std::string type :
       {"", "application/json", "Application/JSON; charset=utf-8", "text/json", "application/vnd.api+json",
        "text/plain;charset=UTF-8", "application/octet-stream", "application/x-www-form-urlencoded"}) {
    CAPTURE(type);
    CHECK_FALSE(content_type_refusal(type));
  }
  for (const std::string type : {"multipart/form-data; boundary=json", "application/xml", "text/xml",
                                 "image/png", "text/html", "json/x"}) {
    CAPTURE(type);
    const std::optional<ApiError> refusal = content_type_refusal(type);
    REQUIRE(refusal);
    CHECK(refusal->status == 415);
    CHECK_THAT(refusal->message, ContainsSubstring("application/json"));
  }
  CHECK(content_type_refusal(std::string(5000, 'x'))->message.size() < 300);
}

TEST_CASE("a preflight is allowed the headers it asks for, never credentials") {
  const HttpRequest request =
      gated_request({{"Origin", "http://localhost:3000"},
                     {"Access-Control-Request-Headers", "authorization, x-stainless-os"}});
  HttpResponse answer = CorsPolicy({}).preflight(request);
  CorsPolicy({}).allow(request, answer.headers);
  CHECK(answer.status == 204);
  CHECK(header_of(answer, "Allow") == "GET, HEAD, POST, DELETE, OPTIONS");
  CHECK(header_of(answer, "Access-Control-Allow-Headers") == "authorization, x-stainless-os");
  CHECK(header_of(answer, "Access-Control-Allow-Origin") == "http://localhost:3000");
  CHECK(header_of(answer, "Access-Control-Allow-Credentials") == "absent");
  HttpResponse foreign = CorsPolicy({}).preflight(gated_request({{"Origin", "http://evil.com"}}));
  CorsPolicy({}).allow(gated_request({{"Origin", "http://evil.com"}}), foreign.headers);
  CHECK(header_of(foreign, "Access-Control-Allow-Origin") == "absent");
  CHECK(header_of(foreign, "Access-Control-Allow-Methods") == "absent");
}

TEST_CASE("health reports loading, ready, stuck, failed and stopping") {
  const test::ManualClock clock;
  ServerState state(seconds(10), clock.reader());
  state.set_progress(0.5);
  CHECK(state.health().status == 503);
  CHECK(state.health().body == R"({"status":"loading","progress":0.5})");
  CHECK(header_of(state.health(), "Retry-After") == "1");

  StatusOnly generator;
  EngineStatus& engine = generator.now;
  engine.n_slots = 4;
  engine.heartbeat = clock.now();
  state.set_ready({nullptr, &generator, "m"});
  CHECK(state.health().status == 200);
  CHECK_THAT(state.health().body, ContainsSubstring(R"("status":"ok")"));

  engine.heartbeat -= seconds(60);
  CHECK(state.health().status == 200);  // an idle engine misses no heartbeat
  engine.n_running = 1;
  CHECK(state.health().status == 503);
  CHECK_THAT(state.health().body, ContainsSubstring("stuck"));
  engine.heartbeat += seconds(60);
  CHECK(state.health().status == 200);
  engine.failed = true;
  engine.failure = "the device is gone";
  CHECK(state.health().status == 503);
  CHECK_THAT(state.health().body, ContainsSubstring(R"("status":"failed","reason":"the device is gone")"));
  state.set_stopping();
  CHECK(state.health().status == 503);
  CHECK(state.health().body == R"({"status":"stopping"})");
}

TEST_CASE("a process counts as alive while it loads, serves and stops, but not if its engine is stuck") {
  const test::ManualClock clock;
  ServerState state(seconds(10), clock.reader());
  state.set_progress(0.456);
  CHECK(state.live().status == 200);
  CHECK(state.ready().status == 503);
  CHECK(state.ready().body ==
        R"x({"status":"loading","progress":0.456,"message":"the model is being loaded (45 %)"})x");
  CHECK(header_of(state.ready(), "Retry-After") == "1");

  StatusOnly generator;
  generator.now.heartbeat = clock.now();
  state.set_ready({nullptr, &generator, "m"});
  for (const HttpResponse& answer : {state.live(), state.ready()}) {
    CHECK(answer.status == 200);
    CHECK(answer.body == R"({"status":"ok"})");
  }
  generator.now.n_running = 1;
  generator.now.heartbeat -= seconds(60);
  for (const HttpResponse& answer : {state.live(), state.ready()}) {
    CHECK(answer.status == 503);
    CHECK_THAT(answer.body, ContainsSubstring("no progress for 10 s"));
  }
  generator.now.heartbeat += seconds(60);
  generator.now.failed = true;
  generator.now.failure = "secret of the device";
  CHECK(state.live().status == 503);
  CHECK_THAT(state.live().body, !ContainsSubstring("secret"));
  generator.now.failed = false;
  state.set_stopping();
  CHECK(state.live().status == 200);
  CHECK(state.ready().status == 503);
  CHECK_THAT(state.ready().body, ContainsSubstring(R"("status":"stopping")"));
}

TEST_CASE("health covers both engines if there is an embedding model") {
  const test::ManualClock clock;
  ServerState state(seconds(10), clock.reader());
  StatusOnly generator, embedder;
  generator.now.heartbeat = embedder.now.heartbeat = clock.now();
  generator.now.n_slots = 4;
  embedder.now.n_slots = 16;
  embedder.now.n_waiting = 3;
  state.set_ready(
      {.api = nullptr, .engine = &generator, .name = "m", .embedder = &embedder, .embedder_name = "e"});
  CHECK(state.health().status == 200);
  CHECK(state.engines_are_well());
  CHECK(state.health().body == R"({"status":"ok","model":"m","slots":{"total":4,"running":0},"waiting":0,)"
                               R"("embedding":{"model":"e","slots":{"total":16,"running":0},"waiting":3}})");
  embedder.now.heartbeat -= seconds(60);
  CHECK_FALSE(state.engines_are_well());
  CHECK(state.health().status == 503);
  CHECK_THAT(state.health().body, ContainsSubstring(R"("status":"stuck")"));
  embedder.now.heartbeat += seconds(60);
  embedder.now.failed = true;
  embedder.now.failure = "no memory";
  CHECK_FALSE(state.engines_are_well());
  CHECK_THAT(state.health().body, ContainsSubstring(R"("status":"failed","reason":"no memory")"));
}

TEST_CASE("a stop while loading remains in force once the model is ready") {
  ServerState state;
  const StatusOnly generator;
  state.set_stopping();
  state.set_ready({nullptr, &generator, "m"});
  CHECK(state.phase() == ServerState::Phase::kStopping);
}

TEST_CASE(
    "the watchdog gets beats while loading, serving or stopping, and none if the engine is stuck or failed") {
  const std::string path = gate_file("watchdog");
  const UniqueFd receiver(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, path.data(), path.size());
  REQUIRE(::bind(receiver.get(), reinterpret_cast<sockaddr*>(&address),
                 static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + path.size())) == 0);
  ServiceManager manager(path, "2");  // microseconds: a beat is always due
  const test::ManualClock clock;
  ServerState state(seconds(10), clock.reader());
  StatusOnly generator;
  generator.now.heartbeat = clock.now();
  const auto heard = [&] {
    manager.beat(state.is_alive());
    std::array<char, 100> got{};
    const ssize_t n = ::recv(receiver.get(), got.data(), got.size(), MSG_DONTWAIT);
    return std::string(got.data(), static_cast<size_t>(std::max<ssize_t>(n, 0)));
  };
  CHECK(heard() == "WATCHDOG=1");  // loading
  state.set_ready({nullptr, &generator, "m"});
  CHECK(heard() == "WATCHDOG=1");
  generator.now.heartbeat -= seconds(60);
  CHECK(heard() == "WATCHDOG=1");  // an idle engine misses no heartbeat
  generator.now.n_running = 1;
  CHECK(heard().empty());
  generator.now.heartbeat += seconds(60);
  CHECK(heard() == "WATCHDOG=1");
  generator.now.failed = true;
  CHECK(heard().empty());
  generator.now.failed = false;
  state.set_stopping();
  CHECK(heard() == "WATCHDOG=1");
  ServiceManager rarely(path, "3600000000");
  for (int i = 0; i < 3; ++i) rarely.beat(true);
  std::array<char, 100> got{};
  CHECK(::recv(receiver.get(), got.data(), got.size(), MSG_DONTWAIT) == 10);
  CHECK(::recv(receiver.get(), got.data(), got.size(), MSG_DONTWAIT) < 0);
  std::filesystem::remove(path);
}

TEST_CASE("the healthcheck asks /health and names the address that did not answer") {
  HttpServerOptions options;
  options.port = 0;
  std::atomic<int> status{200};
  HttpServer server(
      options,
      [&status](const HttpRequest& request) {
        HttpResponse response;
        response.status = request.path == "/health" ? status.load() : 404;
        response.body = "{}";
        return Admission{.at_once = response};
      },
      [](const AccessRecord&) {}, [](const std::string&, const std::string&) {});
  server.start();
  CHECK(check_health("0.0.0.0", server.port()).healthy);
  CHECK(check_health("127.0.0.1", server.port()).answer == "{}");
  status = 503;
  CHECK_FALSE(check_health("127.0.0.1", server.port()).healthy);
  server.stop(std::chrono::milliseconds(1000));
  const HealthcheckResult gone = check_health("127.0.0.1", server.port());
  CHECK_FALSE(gone.healthy);
  CHECK_THAT(gone.answer, ContainsSubstring("no server answers on 127.0.0.1"));
}
