// The transport over real sockets: framing, limits, and misbehaving clients. The handler is the test's own.
#include "server/http/http_server.h"

#include <sys/resource.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <optional>
#include <thread>

#include "server/endpoints/api_path.h"
#include "server/http/connection/listen_socket.h"
#include "server/http/message/http_date.h"
#include "tests/server/http/http_fixture.h"
#include "tests/support/catch.h"
#include "tests/support/manual_clock.h"

using namespace hearth;
using std::chrono::milliseconds;

TEST_CASE("a request is answered with its framing, type and id") {
  const Fixture server(echo);
  const std::string answer = server.ask("GET /a HTTP/1.1\r\nx-request-id: my-id\r\n" + kClose + "\r\n");
  CHECK(starts_with(answer, "HTTP/1.1 200 OK\r\n"));
  CHECK_THAT(answer, ContainsSubstring("Content-Type: text/plain\r\n"));
  CHECK_THAT(answer, ContainsSubstring("Content-Length: 7\r\n"));
  CHECK_THAT(answer, ContainsSubstring("x-request-id: my-id\r\n"));
  CHECK_THAT(answer, ContainsSubstring("\r\n\r\nGET /a <closed>"));
  CHECK_THAT(server.ask("GET /a HTTP/1.1\r\nx-request-id: bad id\r\n" + kClose + "\r\n"),
             ContainsSubstring("x-request-id: req-"));
}

TEST_CASE(
    "bodies come whole: with a length, chunked, after 100-continue, compressed types of forms included") {
  const Fixture server(echo);
  CHECK_THAT(server.ask("POST /p HTTP/1.1\r\n" + kClose + "Content-Length: 5\r\n\r\nhello"),
             ContainsSubstring("POST /p hello<closed>"));
  CHECK_THAT(server.ask("POST /p HTTP/1.1\r\n" + kClose +
                        "Transfer-Encoding: chunked\r\n\r\n3\r\nhel\r\n2\r\nlo\r\n0\r\n\r\n"),
             ContainsSubstring("POST /p hello<closed>"));
  CHECK_THAT(server.ask("POST /p HTTP/1.1\r\n" + kClose +
                        "Transfer-Encoding: chunked\r\nTrailer: A\r\n\r\n5\r\nhello\r\n0\r\nA: b\r\n\r\n"),
             ContainsSubstring("POST /p hello<closed>"));
  CHECK_THAT(server.ask("POST /p HTTP/1.1\r\n" + kClose + "\r\n"), ContainsSubstring("POST /p <closed>"));
  CHECK_THAT(server.ask("PUT /p HTTP/1.1\r\n" + kClose + "Content-Length: 2\r\n\r\nhi"),
             ContainsSubstring("PUT /p hi"));
  for (const std::string type : {"application/x-www-form-urlencoded", "multipart/form-data; boundary=b"}) {
    const std::string body(20'000, 'x');
    CHECK_THAT(server.ask("POST /p HTTP/1.1\r\n" + kClose + "Content-Type: " + type +
                          "\r\nContent-Length: 20000\r\n\r\n" + body),
               ContainsSubstring(body));
  }
  RawClient client(server.port());
  client.send("POST /p HTTP/1.1\r\n" + kClose + "Expect: 100-continue\r\nContent-Length: 5\r\n\r\n");
  CHECK(starts_with(client.read_until("\r\n\r\n"), "HTTP/1.1 100 "));
  client.send("hello");
  CHECK_THAT(client.read_until(), ContainsSubstring("POST /p hello<closed>"));
}

// Versions of cpp-httplib treat these differently; hearthd must answer the same with all of them.
TEST_CASE("headers that the HTTP library might refuse or rewrite do not reach it") {
  const Fixture server([](const HttpRequest& request) {
    HttpResponse response = text(request.method + " " + std::string(request.header("authorization")));
    if (request.path == "/bad") response.status = 400;
    return response;
  });
  const auto get = [&server](const std::string& headers) {
    return server.ask("GET / HTTP/1.1\r\n" + kClose + headers + "\r\n");
  };
  for (const std::string header : {"Accept: ;;q=x,", "Range: bytes=9-1", "Range: what", "Upgrade: websocket",
                                   "REMOTE_ADDR: 1.2.3.4", "Content-Length: 0", "Expect: 100-continue"}) {
    CAPTURE(header);
    CHECK(starts_with(get(header + "\r\n"), "HTTP/1.1 200 "));
  }
  CHECK_THAT(get("Authorization: Bearer a%20b+c\r\n"), ContainsSubstring("GET Bearer a%20b+c<closed>"));
  std::string many;
  for (int i = 0; i < 120; ++i) many += "A" + std::to_string(i) + ": b\r\n";
  CHECK(starts_with(get(many), "HTTP/1.1 200 "));

  // If the handler returns an error, the connection stays open.
  RawClient client(server.port());
  for (int i = 0; i < 2; ++i) {
    client.send("POST /bad HTTP/1.1\r\nContent-Length: 2\r\n\r\nhi");
    const std::string answer = client.read_until("POST ");
    CHECK(starts_with(answer, "HTTP/1.1 400 "));
    CHECK_THAT(answer, ContainsSubstring("Keep-Alive: timeout=75, max=10000\r\n"));
    CHECK_THAT(answer, !ContainsSubstring("Connection: close"));
  }
}

TEST_CASE("a body may be as large as the limit") {
  HttpServerOptions options;
  options.max_body_bytes = 128 << 20;
  const Fixture server([](const HttpRequest& request) { return text(std::to_string(request.body.size())); },
                       options);
  constexpr size_t kBytes = 101 << 20;  // newer versions of cpp-httplib stop at 100 MiB on their own
  CHECK_THAT(server.ask("POST / HTTP/1.1\r\n" + kClose + "Content-Length: " + std::to_string(kBytes) +
                        "\r\n\r\n" + std::string(kBytes, 'x')),
             ContainsSubstring(std::to_string(kBytes) + "<closed>"));
}

TEST_CASE("HEAD has the length and no body; paths are normalized; the query is left out") {
  const Fixture server(echo);
  const std::string head = server.ask("HEAD /a HTTP/1.1\r\n" + kClose + "\r\n");
  CHECK_THAT(head, ContainsSubstring("Content-Length: 8\r\n"));
  CHECK_THAT(head, ContainsSubstring("\r\n\r\n<closed>"));
  CHECK_THAT(server.ask("GET //v1//models/?x=1 HTTP/1.1\r\n" + kClose + "\r\n"),
             ContainsSubstring("GET /v1/models <"));
  CHECK_THAT(server.ask("GET http://h:1/a%20b HTTP/1.1\r\n" + kClose + "\r\n"),
             ContainsSubstring("GET /a b <"));
  CHECK_THAT(server.ask("GET / HTTP/1.1\r\n" + kClose + "\r\n"), ContainsSubstring("GET / <"));
  // Long paths must not reach recursive code.
  const std::string path = "/" + std::string(7000, 'a');
  CHECK_THAT(server.ask("GET " + path + " HTTP/1.1\r\n" + kClose + "\r\n"),
             ContainsSubstring("GET " + path + " <"));
}

TEST_CASE("a connection carries many requests, pipelined ones too") {
  const Fixture server(echo);
  RawClient client(server.port());
  for (int i = 0; i < 3; ++i) {
    client.send("GET /" + std::to_string(i) + " HTTP/1.1\r\nHost: h\r\n\r\n");
    CHECK_THAT(client.read_until("GET /" + std::to_string(i) + " "), ContainsSubstring("Keep-Alive: "));
  }
  client.send("POST /x HTTP/1.1\r\nHost: h\r\nContent-Length: 1\r\n\r\na" +
              std::string("\r\nGET /y HTTP/1.1\r\n") + kClose + "\r\n");
  const std::string both = client.read_until();
  CHECK_THAT(both, ContainsSubstring("POST /x a"));
  CHECK_THAT(both, ContainsSubstring("GET /y <closed>"));
}

TEST_CASE("a client without a key is refused before its body is read") {
  std::atomic<int> n_handled{0};
  const HttpServer::Gate gate = [&n_handled](HttpRequest& head) {
    CHECK(head.body.empty());
    if (head.path == "/broken") throw std::runtime_error("the gate broke");
    Admission admission{.key_name = "k"};
    admission.answer = [&n_handled](const HttpRequest& request, ResponseWriter& writer) {
      ++n_handled;
      writer.send(echo(request));
    };
    if (head.path == "/open") return admission;
    admission.at_once = text("no entry");
    admission.at_once->status = 401;
    return admission;
  };
  Fixture server(gate);
  const std::string closed = "POST /closed HTTP/1.1\r\nHost: h\r\n";
  // The client has sent only the head. The server answers and closes, without waiting for the body or asking
  // for it.
  for (const std::string body :
       {"Content-Length: 16000000\r\n", "Content-Length: 5\r\nExpect: 100-continue\r\n",
        "Transfer-Encoding: chunked\r\n"}) {
    CAPTURE(body);
    const std::string answer = server.ask(closed + body + "\r\n");
    CHECK(starts_with(answer, "HTTP/1.1 401 "));
    CHECK_THAT(answer, ContainsSubstring("Connection: close\r\n"));
    CHECK_THAT(answer, ContainsSubstring("no entry<closed>"));
  }
  // A body that is already in transit neither becomes a request nor costs the client the answer.
  CHECK_THAT(server.ask(closed + "Content-Length: 24\r\n\r\nGET /open HTTP/1.1\r\n\r\n\r\n"),
             ContainsSubstring("no entry<closed>"));
  CHECK(n_handled == 0);
  // Without a body the connection stays open.
  CHECK_THAT(server.ask("GET /closed HTTP/1.1\r\nHost: h\r\n\r\nPOST /open HTTP/1.1\r\n" + kClose +
                        "Content-Length: 2\r\n\r\nhi"),
             ContainsSubstring("no entry") && ContainsSubstring("POST /open hi<closed>"));
  CHECK(n_handled == 1);
  CHECK(starts_with(server.ask("GET /broken HTTP/1.1\r\n" + kClose + "\r\n"), "HTTP/1.1 500 "));
  CHECK(server.failures() == std::vector<std::string>{"the gate broke"});
  for (const AccessRecord& record : server.stop_and_get_records())
    CHECK(record.key_name == (record.path == "/broken" ? "" : "k"));
}

TEST_CASE("too large and malformed requests are refused with an error body, and the answer arrives") {
  HttpServerOptions options;
  options.max_body_bytes = 1 << 20;
  options.error_style = error_style;
  const Fixture server(echo, options);
  const auto status = [&server](const std::string& bytes) {
    const std::string answer = server.ask(bytes);
    CHECK_THAT(answer, ContainsSubstring("\"error\":{"));
    CHECK_THAT(answer, ContainsSubstring("<closed>"));
    return answer.substr(0, 12);
  };
  CHECK(status("GET /" + std::string(9000, 'a') + " HTTP/1.1\r\n" + kClose + "\r\n") == "HTTP/1.1 414");
  CHECK(status("GET /" + std::string(40'000, 'a')) == "HTTP/1.1 414");
  CHECK(status("GET / HTTP/1.1\r\nA: " + std::string(9000, 'a') + "\r\n\r\n") == "HTTP/1.1 431");
  std::string many = "GET / HTTP/1.1\r\n";
  for (int i = 0; i < 200; ++i) many += "A" + std::to_string(i) + ": b\r\n";
  CHECK(status(many + "\r\n") == "HTTP/1.1 431");
  CHECK(status("\x16\x03\x01\x02") == "HTTP/1.1 400");
  CHECK(status("GET /\r\n\r\n") == "HTTP/1.1 400");
  CHECK(status("GET / HTTP/3.0\r\n\r\n") == "HTTP/1.1 400");
  CHECK(status("POST / HTTP/1.1\r\n" + kClose + "Content-Length: 2000000\r\n\r\nabc") == "HTTP/1.1 413");
  CHECK_THAT(server.ask("POST /api/chat HTTP/1.1\r\n" + kClose + "Content-Length: 2000000\r\n\r\nabc"),
             ContainsSubstring(R"({"error":")"));
  CHECK_THAT(server.ask("POST /v1/messages HTTP/1.1\r\n" + kClose + "Content-Length: 2000000\r\n\r\nabc"),
             ContainsSubstring(R"("type":"request_too_large")"));
  CHECK(status("POST / HTTP/1.1\r\n" + kClose + "Content-Length: 99999999999999999999999\r\n\r\nabc") ==
        "HTTP/1.1 413");
  CHECK(status("POST / HTTP/1.1\r\n" + kClose + "Expect: 100-continue\r\nContent-Length: 2000000\r\n\r\n") ==
        "HTTP/1.1 413");
  CHECK(status("POST / HTTP/1.1\r\n" + kClose + "Transfer-Encoding: chunked\r\n\r\n200000\r\n" +
               std::string(0x200000, 'x')) == "HTTP/1.1 413");
  CHECK(status("POST / HTTP/1.1\r\n" + kClose + "Transfer-Encoding: chunked\r\n\r\nzz\r\n") ==
        "HTTP/1.1 400");
  CHECK(status("POST / HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab") == "HTTP/1.1 400");
  CHECK(status("POST / HTTP/1.1\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\nab") ==
        "HTTP/1.1 400");
  CHECK(status("POST / HTTP/1.1\r\nContent-Length: -1\r\n\r\nab") == "HTTP/1.1 400");
  CHECK(status("GET / HTTP/1.1\r\nHost: a\r\nhost: a\r\n\r\n") == "HTTP/1.1 400");
  CHECK(status("POST / HTTP/1.1\r\nTransfer-Encoding: gzip\r\n\r\nab") == "HTTP/1.1 501");
  CHECK(status("POST / HTTP/1.1\r\nContent-Encoding: br\r\nContent-Length: 2\r\n\r\nab") == "HTTP/1.1 415");
  CHECK(status("POST / HTTP/1.1\r\nContent-Encoding: gzip, gzip\r\nContent-Length: 2\r\n\r\nab") ==
        "HTTP/1.1 415");
  CHECK(status("POST / HTTP/1.1\r\nContent-Encoding: gzip\r\nContent-Length: 2\r\n\r\nab") == "HTTP/1.1 400");
}

TEST_CASE("every answer has a date") {
  CHECK(http_date(784111777) == "Sun, 06 Nov 1994 08:49:37 GMT");
  CHECK(http_date(951782400) == "Tue, 29 Feb 2000 00:00:00 GMT");
  const Fixture server(echo);
  for (const std::string& bytes : {"GET / HTTP/1.1\r\n" + kClose + "\r\n", std::string("\x16 no HTTP"),
                                   "GET / HTTP/3.0\r\n" + kClose + "\r\n"}) {
    const std::string answer = server.ask(bytes);
    const size_t date = answer.find("\r\nDate: ");
    REQUIRE(date != std::string::npos);
    CHECK(answer.substr(date + 33, 6) == " GMT\r\n");
    CHECK(answer.find("\r\nDate: ", date + 1) == std::string::npos);
  }
}

TEST_CASE("wait_until_idle() waits for running answers while the port stays open") {
  std::atomic<bool> go_on{false}, begun{false};
  Fixture server([&](const HttpRequest& request) {
    if (request.path == "/slow") {
      begun = true;
      begun.notify_all();
      go_on.wait(false);
    }
    return text("done");
  });
  CHECK(server.server().wait_until_idle(milliseconds(0)));
  RawClient slow(server.port());
  slow.send("GET /slow HTTP/1.1\r\n" + kClose + "\r\n");
  begun.wait(false);
  CHECK_FALSE(server.server().wait_until_idle(milliseconds(1)));
  CHECK_THAT(server.ask("GET /quick HTTP/1.1\r\n" + kClose + "\r\n"), ContainsSubstring("done"));
  go_on = true;
  go_on.notify_all();
  CHECK(server.server().wait_until_idle(milliseconds(60'000)));
  CHECK_THAT(slow.read_until(), ContainsSubstring("done"));
}

TEST_CASE("hundreds of silent and slow connections keep no request from being answered") {
  HttpServerOptions options;
  options.max_threads = 4;
  options.max_idle_connections = 200;
  const test::ManualClock clock;  // stands still, so no head is late
  options.now = clock.reader();
  const Fixture server(echo, options);
  std::vector<std::unique_ptr<RawClient>> clients;
  for (int i = 0; i < 300; ++i) {
    clients.push_back(std::make_unique<RawClient>(server.port()));
    REQUIRE(clients.back()->connected());
    if (i % 2 == 0) clients.back()->send("GET /slow HTTP/1.1\r\nA: b");
  }
  CHECK_THAT(server.ask("GET /health HTTP/1.1\r\n" + kClose + "\r\n"),
             ContainsSubstring("GET /health <closed>"));
  // Beyond the limit, the oldest have been closed; the younger ones still work.
  CHECK_THAT(clients[0]->read_until(), ContainsSubstring("<"));
  clients[298]->send("\r\nConnection: close\r\n\r\n");
  CHECK_THAT(clients[298]->read_until(), ContainsSubstring("GET /slow <closed>"));
}

TEST_CASE("a head that does not come in time is answered 408") {
  HttpServerOptions options;
  options.head_time = milliseconds(50);
  test::ManualClock clock;
  std::atomic<bool> runs{
      false};  // if it does, more time than a head may take passes between two looks at the clock
  options.now = [&] {
    if (runs) clock.advance(milliseconds(60));
    return clock.now();
  };
  const Fixture server(echo, options);
  // When the first request is answered, the server has also read the beginning of the second: they came in
  // one segment.
  RawClient client(server.port());
  client.send("GET /a HTTP/1.1\r\nHost: h\r\n\r\nGET / HT");
  CHECK_THAT(client.read_until("GET /a "), ContainsSubstring("HTTP/1.1 200 "));
  runs = true;
  CHECK(starts_with(client.read_until(), "HTTP/1.1 408 "));
  CHECK(server.ask("") == "<closed>");
}

TEST_CASE("a client that does not read its answer is disconnected, and delays no other meanwhile") {
  HttpServerOptions options;
  options.max_threads = 3;
  options.stall_time = milliseconds(300);
  std::atomic<int> n_cut{0};
  Fixture server(
      [&n_cut](const HttpRequest& request, ResponseWriter& writer) {
        if (request.path == "/health") return writer.send(text("well"));
        writer.begin("text/plain", {});
        const std::string piece(64 << 10, 'x');
        // Far more than the kernel buffers on both sides.
        for (int i = 0; i < 4096; ++i) {
          if (writer.write(piece)) continue;
          ++n_cut;
          return;
        }
        writer.finish();
      },
      options);
  std::vector<std::unique_ptr<RawClient>> slow;
  for (int i = 0; i < 2; ++i) {
    slow.push_back(std::make_unique<RawClient>(server.port()));
    slow.back()->send("GET /long HTTP/1.1\r\n" + kClose + "\r\n");
    slow.back()->read_until("\r\n\r\n");  // and reads nothing more
  }
  CHECK_THAT(server.ask("GET /health HTTP/1.1\r\n" + kClose + "\r\n"), ContainsSubstring("well<closed>"));
  CHECK(server.server().wait_until_idle(milliseconds(60'000)));
  CHECK(n_cut == 2);
  CHECK_THAT(slow[0]->read_until(), ContainsSubstring("<reset>"));
  const std::vector<AccessRecord> records = server.stop_and_get_records();
  REQUIRE(records.size() == 3);
  // In any order: on a busy machine, the first may have been cut off before /health is answered.
  CHECK(std::ranges::count(records, false, &AccessRecord::complete) == 2);
}

TEST_CASE("the total memory of bodies is limited, and small ones are always accepted") {
  HttpServerOptions options;
  options.max_bodies_bytes = 1 << 20;
  test::ManualClock clock;
  options.now = clock.reader();
  const Fixture server([](const HttpRequest& request) { return text(std::to_string(request.body.size())); },
                       options);
  const auto head = [](size_t length) {
    return "POST / HTTP/1.1\r\n" + kClose + "Content-Length: " + std::to_string(length) + "\r\n\r\n";
  };
  const std::string large(800'000, 'x');
  CHECK_THAT(server.ask(head(large.size()) + large), ContainsSubstring("\r\n\r\n800000<closed>"));
  CHECK_THAT(server.ask(head(large.size()) + large),
             ContainsSubstring("\r\n\r\n800000<closed>"));  // its share was returned
  const auto ask_both = [&] {
    CHECK_THAT(server.ask(head(1000) + std::string(1000, 'x')), ContainsSubstring("\r\n\r\n1000<closed>"));
    return server.ask(head(large.size()) + large);
  };
  // While the first bytes of a slow body are in memory, there is no room for another large one. If the two
  // arrive at once, either may be refused, so the slow one is sent again if it was.
  std::optional<RawClient> slow;
  const auto is_refused = [&] {
    const std::string answer = ask_both();
    if (!starts_with(answer, "HTTP/1.1 503 ")) return false;
    CHECK_THAT(answer, ContainsSubstring("as its memory allows") && ContainsSubstring("Retry-After: 1\r\n"));
    return true;
  };
  bool refused = false;
  for (int attempt = 0; attempt < 50 && !refused; ++attempt) {
    slow.emplace(server.port());
    slow->send(head(large.size()) + large.substr(0, 700'000));
    while (!slow->has_input() && !is_refused()) {
    }
    refused = is_refused() && !slow->has_input();
  }
  REQUIRE(refused);
  // When its client has been slow for long enough, its memory is freed for others.
  clock.advance(std::chrono::seconds(2));
  while (is_refused()) {
  }
  CHECK_THAT(slow->read_until(), ContainsSubstring("<closed>"));
  CHECK_THAT(ask_both(), ContainsSubstring("\r\n\r\n800000<closed>"));
}

TEST_CASE("without free descriptors the connection that would expire first is closed for a new one") {
  HttpServerOptions options;
  const test::ManualClock clock;  // stands still, so none expires
  options.now = clock.reader();
  const Fixture server(echo, options);
  rlimit before{};
  REQUIRE(::getrlimit(RLIMIT_NOFILE, &before) == 0);
  std::vector<std::unique_ptr<RawClient>> crowd;
  for (int i = 0; i < 100; ++i) crowd.push_back(std::make_unique<RawClient>(server.port()));
  // This connection comes after the crowd in the kernel's queue, so the crowd has been accepted when it is
  // answered.
  REQUIRE_THAT(server.ask("GET /a HTTP/1.1\r\n" + kClose + "\r\n"), ContainsSubstring("GET /a <closed>"));
  // From now on no free descriptor number may be used, so these sockets are made before.
  std::array<RawClient, 3> late;
  const int lowest_free = ::dup(0);
  ::close(lowest_free);
  const rlimit low{static_cast<rlim_t>(lowest_free), before.rlim_max};
  REQUIRE(::setrlimit(RLIMIT_NOFILE, &low) == 0);
  std::vector<std::string> answers;
  for (RawClient& one : late) {
    one.connect(server.port());
    one.send("GET /b HTTP/1.1\r\n" + kClose + "\r\n");
    answers.push_back(one.read_until());
  }
  REQUIRE(::setrlimit(RLIMIT_NOFILE, &before) == 0);
  for (const std::string& answer : answers) CHECK_THAT(answer, ContainsSubstring("GET /b <closed>"));
  CHECK_THAT(crowd[0]->read_until(), ContainsSubstring("<closed>"));
}

TEST_CASE("a request gets 503 at once if all threads are busy") {
  std::atomic<bool> go_on{false};
  std::atomic<int> n_busy{0};
  HttpServerOptions options;
  options.max_threads = 2;
  const Fixture server(
      [&](const HttpRequest&) {
        ++n_busy;
        while (!go_on) std::this_thread::sleep_for(milliseconds(1));
        return text("done");
      },
      options);
  RawClient first(server.port()), second(server.port());
  for (const RawClient* client : {&first, &second}) client->send("GET / HTTP/1.1\r\n" + kClose + "\r\n");
  while (n_busy < 2) std::this_thread::sleep_for(milliseconds(1));
  const std::string refused = server.ask("GET / HTTP/1.1\r\n" + kClose + "\r\n");
  CHECK(starts_with(refused, "HTTP/1.1 503 "));
  CHECK_THAT(refused, ContainsSubstring("Retry-After: 1\r\n"));
  go_on = true;
  CHECK_THAT(first.read_until(), ContainsSubstring("done<closed>"));
  CHECK_THAT(second.read_until(), ContainsSubstring("done<closed>"));
}

TEST_CASE("stopping lets running answers finish, and breaks off those that take too long") {
  std::atomic<bool> started{false}, broken{false};
  Fixture server([&](const HttpRequest&, ResponseWriter& writer) {
    writer.begin("text/plain", {});
    started = true;
    while (writer.client_alive()) std::this_thread::sleep_for(milliseconds(1));
    broken = true;
  });
  RawClient client(server.port());
  client.send("GET / HTTP/1.1\r\nHost: h\r\n\r\n");
  while (!started) std::this_thread::sleep_for(milliseconds(1));
  server.server().stop(milliseconds(20));
  CHECK(broken);
  CHECK_THAT(client.read_until(), !ContainsSubstring("<timeout>"));
  CHECK_FALSE(RawClient(server.port()).connected());
}

TEST_CASE("ports in use and unknown hosts are reported, and IPv6 is accepted") {
  const Fixture server(echo);
  const auto failure = [](const std::string& host, int port) {
    try {
      open_listen_socket(host, port);
    } catch (const ListenError& error) {
      return std::string(error.what());
    }
    return std::string("opened");
  };
  CHECK(failure("127.0.0.1", server.port()) ==
        "127.0.0.1 port " + std::to_string(server.port()) +
            " is in use by another program; stop that one or choose another --port (0: any free one)");
  CHECK_THAT(failure("192.0.2.1", 0), ContainsSubstring("no such address"));
  CHECK_THAT(failure("no such host", 0), ContainsSubstring("--host no such host"));
  CHECK(local_url("0.0.0.0", 80) == "http://127.0.0.1:80");
  CHECK(local_url("::", 80) == "http://[::1]:80");
  CHECK(local_url("[::1]", 80) == "http://[::1]:80");
  CHECK(is_loopback("127.0.0.1"));
  CHECK(is_loopback("::ffff:127.0.0.1"));
  CHECK_FALSE(is_loopback("0.0.0.0"));
}
