// Tests which requests a client may make: files of API keys, roles, host names.
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "server/api/server_state.h"
#include "server/gate/auth.h"
#include "server/gate/host_policy.h"
#include "server/gate/key_file.h"
#include "server/gate/key_limits.h"
#include "server/gate/routes.h"
#include "tests/server/gate/asked.h"
#include "tests/support/catch.h"

using namespace hearth;

namespace {

HttpRequest request_with(std::vector<std::pair<std::string, std::string>> headers) {
  HttpRequest request;
  request.headers = std::move(headers);
  return request;
}

std::string temporary(const std::string& name) {
  return (std::filesystem::temp_directory_path() / ("hearth-" + name + std::to_string(::getpid()))).string();
}

Auth auth_of(const std::string& lines) { return Auth(parse_key_file(lines, "keys")); }

std::string failure_of_lines(const std::string& lines) {
  try {
    parse_key_file(lines, "keys");
  } catch (const KeyFileError& error) {
    return error.what();
  }
  return "accepted";
}

std::string failure_of_file(const std::string& path) {
  try {
    read_key_file(path);
  } catch (const KeyFileError& error) {
    return error.what();
  }
  return "accepted";
}

/// "allowed as NAME", or the refusal's code.
std::string verdict(const Auth& auth, Role role, std::vector<std::pair<std::string, std::string>> headers,
                    const std::string& remote_address = "192.0.2.1") {
  HttpRequest request = request_with(std::move(headers));
  request.remote_address = remote_address;
  const Auth::Verdict found = auth.check(request, role);
  return found.refusal ? found.refusal->code : "allowed as " + found.key_name;
}

constexpr const char* kHashOfAlpha = "8ed3f6ad685b959ead7022518e1af76cd816f8e8ec7ccdda1ed4018e8f2223f8";

}  // namespace

TEST_CASE("a key is accepted as bearer token, X-Api-Key or api-key, and only if it is complete") {
  const Auth auth = auth_of("alpha\nbeta-2\n");
  const auto sent = [&auth](const std::string& name, const std::string& value) {
    return verdict(auth, Role::kUse, {{name, value}});
  };
  CHECK(sent("Authorization", "Bearer alpha") == "allowed as line-1");
  CHECK(sent("authorization", "bearer  beta-2 ") == "allowed as line-2");
  CHECK(sent("X-Api-Key", "alpha") == "allowed as line-1");
  CHECK(sent("api-key", "beta-2") == "allowed as line-2");
  CHECK(sent("Api-Key", "gamma") == "invalid_api_key");
  CHECK(sent("Authorization", "Bearer alph") == "invalid_api_key");
  CHECK(sent("Authorization", "Bearer alphaalpha") == "invalid_api_key");
  CHECK(sent("Authorization", std::string("Bearer sha256:") + kHashOfAlpha) == "invalid_api_key");
  CHECK(sent("Authorization", "Bearer ") == "missing_api_key");
  CHECK(sent("Authorization", "Basic alpha") == "missing_api_key");
  CHECK(sent("Accept", "alpha") == "missing_api_key");
}

TEST_CASE("a line of a key file is a key, a hash, or fields in any order") {
  const std::vector<ApiKey> keys =
      parse_key_file("\xef\xbb\xbf# keys\n\n  plain key with blanks \r\nsha256:" + std::string(kHashOfAlpha) +
                         "\nname=ci   role=use,metrics\tkey=beta\nkey=gamma name=boss.1 role=admin\n",
                     "keys");
  REQUIRE(keys.size() == 4);
  CHECK(keys[0].name == "line-3");
  CHECK(keys[0].hash == sha256("plain key with blanks"));
  CHECK(keys[1].name == "line-4");
  CHECK(keys[1].hash == sha256("alpha"));
  CHECK((keys[1].has(Role::kUse) && !keys[1].has(Role::kMetrics) && !keys[1].has(Role::kAdmin)));
  CHECK(keys[2].name == "ci");
  CHECK(keys[2].hash == sha256("beta"));
  CHECK((keys[2].has(Role::kUse) && keys[2].has(Role::kMetrics) && !keys[2].has(Role::kAdmin)));
  CHECK(keys[3].name == "boss.1");
  CHECK((!keys[3].has(Role::kUse) && keys[3].has(Role::kAdmin)));
  CHECK(parse_key_file("same\nsame\n", "keys").size() == 1);
}

TEST_CASE("a mistake in a key file is one sentence with the line, and never shows a key") {
  const auto refused = [](const std::string& lines, const std::string& part) {
    const std::string sentence = failure_of_lines(lines);
    CAPTURE(sentence);
    CHECK_THAT(sentence, ContainsSubstring(part));
    CHECK_THAT(sentence, !ContainsSubstring("hunter2"));
  };
  refused("# none\n", "no API key in this file");
  refused("ok\nname=a key=hunter2 more\n", "keys, line 2: expected the fields");
  refused("name=a hunter2\n", "expected the fields");
  refused("name=a b key=hunter2\n", "expected the fields");
  refused("name=a\n", "key= is missing");
  refused("key=\n", "the key is empty");
  refused("key=a key=hunter2\n", "key is given twice");
  refused("name=a/b key=hunter2\n", "letters, digits and ._-");
  refused("name= key=hunter2\n", "letters, digits and ._-");
  refused("role=root key=hunter2\n", "use, metrics or admin");
  refused("role= key=hunter2\n", "role is empty");
  refused("sha256:hunter2\n", "64 hexadecimal digits");
  refused("name=a key=hunter2\nname=a key=other\n", "two keys have the name a");
  refused("name=a key=hunter2\nname=b key=hunter2\n", "a and b are the same key");
}

TEST_CASE("key files: files of other kinds are refused") {
  const std::string path = temporary("keys");
  std::ofstream(path) << "alpha\n";
  CHECK(read_key_file(path).size() == 1);
  CHECK(read_all_keys(path, "name=env key=beta").back().name == "env");
  CHECK(read_all_keys("", "beta").front().name == "environment");
  CHECK(read_all_keys("", "").empty());
  std::filesystem::permissions(path, std::filesystem::perms::owner_read);
  CHECK_FALSE(is_readable_by_all(path));
  std::filesystem::permissions(path, std::filesystem::perms::others_read, std::filesystem::perm_options::add);
  CHECK(is_readable_by_all(path));
  std::filesystem::resize_file(path, (1 << 20) + 1);
  CHECK_THAT(failure_of_file(path), ContainsSubstring("too large"));
  std::filesystem::remove(path);
  CHECK_THAT(failure_of_file(path), ContainsSubstring("no such file"));
  CHECK_THAT(failure_of_file("/tmp"), ContainsSubstring("plain file"));
}

TEST_CASE("a line with a key's hash accepts the key") {
  const std::string line = hashed_key_line("alpha");
  CHECK(line == std::string("name=key-8ed3f6ad role=use key=sha256:") + kHashOfAlpha);
  CHECK(verdict(auth_of(line + "\n"), Role::kUse, {{"X-Api-Key", "alpha"}}) == "allowed as key-8ed3f6ad");
}

TEST_CASE("each path needs its role, and admins see metrics") {
  const auto access = [](std::string_view path) { return find_destination(path, "GET", true).access; };
  CHECK(access("/metrics") == Access::kMetrics);
  for (const std::string path : {"/admin", "/admin/models", "/admin/", "/admin/model", "/v1/admin/model"})
    CHECK(access(path) == Access::kAdmin);
  for (const std::string path : {"/chat/completions", "/administrator", "/metricsx", "/models/admin"})
    CHECK(access(path) == Access::kUse);
  const Auth auth = auth_of("name=u key=user\nname=m role=metrics key=meter\nname=a role=admin key=boss\n");
  const auto may = [&auth](const std::string& key, Role role) {
    return verdict(auth, role, {{"X-Api-Key", key}});
  };
  CHECK(may("user", Role::kUse) == "allowed as u");
  CHECK(may("user", Role::kMetrics) == "role_missing");
  CHECK(may("user", Role::kAdmin) == "role_missing");
  CHECK(may("meter", Role::kMetrics) == "allowed as m");
  CHECK(may("meter", Role::kUse) == "role_missing");
  CHECK(may("boss", Role::kAdmin) == "allowed as a");
  CHECK(may("boss", Role::kMetrics) == "allowed as a");
  CHECK(may("boss", Role::kUse) == "role_missing");
}

TEST_CASE("without keys everything but /admin is open, and /admin is open to this machine only") {
  const Auth open({});
  CHECK_FALSE(open.required());
  CHECK(verdict(open, Role::kUse, {}) == "allowed as ");
  CHECK(verdict(open, Role::kMetrics, {}) == "allowed as ");
  CHECK(verdict(open, Role::kAdmin, {}) == "role_missing");
  CHECK(verdict(open, Role::kAdmin, {}, "127.0.0.1") == "allowed as ");
  CHECK(verdict(open, Role::kAdmin, {}, "::1") == "allowed as ");
  for (const std::string header : {"Forwarded", "X-Forwarded-For", "X-Real-IP"})
    CHECK(verdict(open, Role::kAdmin, {{header, "for=192.0.2.1"}}, "127.0.0.1") == "role_missing");
}

TEST_CASE("keys can be replaced while requests are checked, in all copies") {
  const Auth auth = auth_of("old\n");
  const Auth& same = Auth(auth);
  auth.replace(parse_key_file("name=n key=new\n", "keys"));
  CHECK(verdict(same, Role::kUse, {{"X-Api-Key", "new"}}) == "allowed as n");
  CHECK(verdict(same, Role::kUse, {{"X-Api-Key", "old"}}) == "invalid_api_key");
}

TEST_CASE("a key's limits are read, and refused if they are invalid") {
  const ApiKey key = parse_key_line("key=k concurrent=2 per-minute=60", "n", "here");
  CHECK(key.concurrent == 2);
  CHECK(key.per_minute == 60);
  for (const std::string bad :
       {"key=k concurrent=0", "key=k per-minute=", "key=k concurrent=two", "key=k concurrent=-1",
        "key=k per-minute=1.5", "key=k concurrent=1 concurrent=2", "key=k per-minute=99999999999"}) {
    CAPTURE(bad);
    CHECK_THROWS_AS(parse_key_line(bad, "n", "here"), KeyFileError);
  }
}

TEST_CASE("a key's requests at once and per minute are limited, and each response frees a place") {
  KeyLimits::Clock::time_point now{};
  KeyLimits limits([&] { return now; });
  const auto enters = [&](const ApiKey& key) {
    auto entered = limits.enter(key);
    const auto* place = std::get_if<KeyLimits::Place>(&entered);
    return place == nullptr ? KeyLimits::Place() : *place;
  };
  const auto retry_after = [&](const ApiKey& key) {
    return std::get<KeyLimits::Refusal>(limits.enter(key)).retry_after;
  };
  ApiKey two;
  two.name = "two";
  two.concurrent = 2;
  KeyLimits::Place first = enters(two), second = enters(two);
  CHECK(retry_after(two) == 1);
  ApiKey other = two;
  other.name = "other";
  CHECK(std::holds_alternative<KeyLimits::Place>(limits.enter(other)));
  first.reset();
  CHECK(std::holds_alternative<KeyLimits::Place>(limits.enter(two)));

  ApiKey rate;
  rate.name = "rate";
  rate.per_minute = 6;
  for (int i = 0; i < 6; ++i) CHECK(std::holds_alternative<KeyLimits::Place>(limits.enter(rate)));
  CHECK(retry_after(rate) == 10);
  now += std::chrono::seconds(4);
  CHECK(retry_after(rate) == 6);
  now += std::chrono::seconds(6);
  CHECK(std::holds_alternative<KeyLimits::Place>(limits.enter(rate)));
  CHECK(retry_after(rate) == 10);
  now += std::chrono::hours(1);  // at most a minute's allowance accumulates
  for (int i = 0; i < 6; ++i) CHECK(std::holds_alternative<KeyLimits::Place>(limits.enter(rate)));
  CHECK(retry_after(rate) == 10);
}

TEST_CASE("the name of the key goes with the request, and roles are checked on every spelling of a path") {
  const ServerState state;
  const MetricsPage metrics(state, "1.2.3");
  const Routes routes(
      state, metrics,
      {.auth = auth_of("name=u key=user\nname=a role=admin key=boss\n"), .cors = CorsPolicy({})},
      admin_answer);
  const auto ask = [&](const std::string& path, const std::string& key) {
    HttpRequest request = request_with({{"X-Api-Key", key}});
    request.method = "GET";
    request.path = path;
    return std::pair{asked(routes, request).status, routes.admit(request).key_name};
  };
  CHECK(ask("/v1/models", "user") == std::pair{503, std::string("u")});  // the model is still loading
  CHECK(ask("/v1/models", "boss").first == 403);
  CHECK(ask("/v1/models", "other").second.empty());
  for (const std::string path : {"/admin/x", "/v1/admin/x", "/v1/v1/admin", "/openai/v1/admin/x"}) {
    CAPTURE(path);
    CHECK(ask(path, "user").first == 403);
    CHECK(ask(path, "boss").first == 404);
  }
  CHECK(ask("/livez", "").first == 200);
}

TEST_CASE("with keys set a foreign page still gets no CORS headers, with or without a valid key") {
  const ServerState state;
  const MetricsPage metrics(state, "1.2.3");
  const Routes routes(state, metrics, {.auth = auth_of("user\n"), .cors = CorsPolicy({})}, admin_answer);
  for (const std::string key : {"", "user"}) {
    HttpRequest request = request_with({{"Origin", "http://evil.example"}, {"X-Api-Key", key}});
    request.method = "GET";
    request.path = "/openapi.json";
    const HttpResponse answer = asked(routes, request);
    CHECK(answer.status == (key.empty() ? 401 : 200));
    for (const auto& [name, value] : answer.headers) CHECK(name != "Access-Control-Allow-Origin");
  }
}

TEST_CASE("on loopback only this machine's names are accepted as the host") {
  const HostPolicy policy("127.0.0.1", {});
  const auto allows = [](const HostPolicy& hosts, const std::string& host) {
    return !hosts.refusal(request_with({{"Host", host}}));
  };
  for (const std::string host : {"localhost", "LocalHost:8080", "127.0.0.1:8080", "127.9.9.9", "[::1]:8080",
                                 "[::1]", "::1", "app.localhost:1", "localhost.", "[::ffff:127.0.0.1]:80",
                                 "host.docker.internal:8080", "[0:0:0:0:0:0:0:1]"}) {
    CAPTURE(host);
    CHECK(allows(policy, host));
  }
  for (const std::string host :
       {"evil.example", "evil.example:8080", "127.0.0.1.evil.example", "localhost.evil.example",
        "127.evil.example", "192.0.2.1", "[::2]", "[::1", "localhost@evil.example", "evillocalhost",
        "x.docker.internal", "0.0.0.0", ":80", "2130706433"}) {
    CAPTURE(host);
    CHECK_FALSE(allows(policy, host));
  }
  CHECK_FALSE(policy.refusal(request_with({})));  // browsers always send it
  const std::optional<ApiError> refusal = policy.refusal(request_with({{"Host", "evil.example:80"}}));
  REQUIRE(refusal);
  CHECK(refusal->status == 403);
  CHECK_THAT(refusal->message, ContainsSubstring("--allowed-host evil.example allows it"));
  CHECK_THAT(policy.refusal(request_with({{"Host", "<script>\"\x01"}}))->message,
             !ContainsSubstring("script"));

  const HostPolicy named("127.0.0.1", {"Chat.example.org"});
  CHECK(allows(named, "chat.example.org:443"));
  CHECK(allows(named, "localhost"));
  CHECK_FALSE(allows(named, "other.example.org"));
  CHECK(allows(HostPolicy("127.0.0.1", {"*"}), "evil.example"));
  CHECK(allows(HostPolicy("0.0.0.0", {}), "evil.example"));
  const HostPolicy open("0.0.0.0", {"chat.example.org"});
  for (const std::string host : {"chat.example.org", "10.1.2.3:8080", "[fd00::1]:8080"})
    CHECK(allows(open, host));
  for (const std::string host : {"evil.example", "10.1.2.3.evil.example", "10.1.2"})
    CHECK_FALSE(allows(open, host));
  CHECK(allows(HostPolicy("192.0.2.7", {"chat.example.org"}), "192.0.2.7:8080"));
}

TEST_CASE("a request with a foreign host name is refused first of all, probes and preflights included") {
  const ServerState state;
  const MetricsPage metrics(state, "1.2.3");
  const Routes routes(state, metrics,
                      {.auth = Auth({}), .cors = CorsPolicy({}), .hosts = HostPolicy("127.0.0.1", {})},
                      admin_answer);
  for (const auto& [method, path] :
       {std::pair{"GET", "/health"}, {"OPTIONS", "/v1/models"}, {"GET", "/v1/models"}}) {
    HttpRequest request = request_with({{"Host", "evil.example"}});
    request.method = method;
    request.path = path;
    CHECK(asked(routes, request).status == 403);
    CHECK_THAT(asked(routes, request).body, ContainsSubstring("host_not_allowed"));
  }
}
