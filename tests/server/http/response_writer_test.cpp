// Tests how handlers answer over real sockets: whole answers, bodies written in pieces, and bodies that are
// not finished.
#include "server/http/response_writer.h"

#include <atomic>
#include <new>
#include <stdexcept>
#include <thread>

#include "tests/server/http/http_fixture.h"
#include "tests/support/catch.h"

using namespace hearth;
using std::chrono::milliseconds;

TEST_CASE("a written body is chunked, leaves piece by piece, and is never compressed or cut into ranges") {
  std::atomic<bool> go_on{false};
  const Fixture server([&go_on](const HttpRequest&, ResponseWriter& writer) {
    CHECK(writer.begin("text/event-stream", {}));
    CHECK(writer.write("data: one\n\n"));
    CHECK(writer.write(""));
    while (!go_on) std::this_thread::sleep_for(milliseconds(1));
    CHECK(writer.write("data: two\n\n"));
    writer.finish();
  });
  RawClient client(server.port());
  client.send("POST / HTTP/1.1\r\nAccept-Encoding: gzip, br\r\nRange: bytes=0-1\r\n" + kClose + "\r\n");
  const std::string first = client.read_until("data: one\n\n");  // arrives while the producer still waits
  CHECK(starts_with(first, "HTTP/1.1 200 "));
  CHECK_THAT(first, ContainsSubstring("Transfer-Encoding: chunked"));
  CHECK_THAT(first, !ContainsSubstring("Content-Encoding"));
  go_on = true;
  CHECK_THAT(client.read_until(), ContainsSubstring("data: two\n\n\r\n0\r\n\r\n<closed>"));
}

TEST_CASE("to an HTTP/1.0 client a written body ends with the connection") {
  const Fixture server([](const HttpRequest&, ResponseWriter& writer) { write_braces(writer); });
  const std::string answer = server.ask("GET / HTTP/1.0\r\n\r\n");
  CHECK_THAT(answer, !ContainsSubstring("chunked"));
  CHECK_THAT(answer, ContainsSubstring("\r\n\r\n{}<closed>"));
}

TEST_CASE("an HTTP/1.0 client keeps its connection if it asks to, as long as answers have a length") {
  const Fixture server([](const HttpRequest& request, ResponseWriter& writer) {
    if (request.path == "/written") return write_braces(writer);
    writer.send(text("hello"));
  });
  RawClient client(server.port());
  for (int i = 0; i < 2; ++i) {
    client.send("GET / HTTP/1.0\r\nConnection: Keep-Alive\r\n\r\n");
    const std::string answer = client.read_until("hello");
    CHECK_THAT(answer, ContainsSubstring("Connection: keep-alive\r\n"));
    CHECK_THAT(answer, ContainsSubstring("Content-Length: 5\r\n"));
  }
  client.send("GET /written HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
  const std::string written = client.read_until();
  CHECK_THAT(written, ContainsSubstring("Connection: close\r\n"));
  CHECK_THAT(written, ContainsSubstring("\r\n\r\n{}<closed>"));
  CHECK_THAT(server.ask("GET / HTTP/1.0\r\n\r\n"), ContainsSubstring("hello<closed>"));
}

TEST_CASE("a body that was begun and not finished breaks the connection") {
  Fixture server([](const HttpRequest& request, ResponseWriter& writer) {
    writer.begin("text/plain", {});
    writer.write("part");
    if (request.path == "/throw") throw std::runtime_error("secret detail");
  });
  for (const std::string version : {"1.0", "1.1"}) {
    for (const std::string path : {"/leave", "/throw"}) {
      const std::string answer = server.ask("GET " + path + " HTTP/" + version + "\r\nHost: h\r\n\r\n");
      CHECK_THAT(answer, ContainsSubstring("part"));
      CHECK_THAT(answer, !ContainsSubstring("\r\n0\r\n\r\n"));
      CHECK_THAT(answer, ContainsSubstring("<reset>"));
      CHECK_THAT(answer, !ContainsSubstring("secret"));
    }
  }
  CHECK(server.failures() == std::vector<std::string>{"secret detail", "secret detail"});
  for (const AccessRecord& record : server.stop_and_get_records()) {
    CHECK(record.status == 200);
    CHECK_FALSE(record.complete);
  }
}

TEST_CASE("a body of which a piece was lost breaks the connection, even if its handler finishes it") {
  HttpServerOptions options;
  options.stall_time = milliseconds(300);
  std::atomic<int> n_lost{0};
  Fixture server(
      [&n_lost](const HttpRequest&, ResponseWriter& writer) {
        writer.begin("text/plain", {});
        const std::string piece(64 << 10, 'x');
        // Far more than the kernel buffers on both sides.
        for (int i = 0; i < 4096 && writer.write(piece); ++i) {
        }
        if (!writer.write("more")) ++n_lost;
        writer.finish();
      },
      options);
  for (const std::string version : {"1.0", "1.1"}) {
    RawClient client(server.port());
    client.send("GET / HTTP/" + version + "\r\nHost: h\r\n\r\n");
    client.read_until("\r\n\r\n");  // and reads nothing more until it was given up
    CHECK(server.server().wait_until_idle(milliseconds(60'000)));
    CHECK_THAT(client.read_until(), ContainsSubstring("<reset>") && !ContainsSubstring("more"));
  }
  CHECK(n_lost == 2);
  const std::vector<AccessRecord> records = server.stop_and_get_records();
  REQUIRE(records.size() == 2);
  for (const AccessRecord& record : records) CHECK_FALSE(record.complete);
}

TEST_CASE("HEAD gets the head of a body without a length, and its handler no client to write to") {
  std::atomic<bool> wrote{false};
  Fixture server([&wrote](const HttpRequest&, ResponseWriter& writer) {
    CHECK(writer.begin("text/event-stream", {{"Cache-Control", "no-store"}}));
    while (writer.write("data: more\n\n")) wrote = true;
  });
  RawClient client(server.port());
  for (int i = 0; i < 2; ++i) {
    client.send("HEAD / HTTP/1.1\r\nHost: h\r\n\r\n");
    const std::string answer = client.read_until("\r\n\r\n");
    CHECK(starts_with(answer, "HTTP/1.1 200 "));
    CHECK_THAT(answer, ContainsSubstring("Cache-Control: no-store\r\n"));
    CHECK_THAT(answer, ContainsSubstring("Keep-Alive: "));
  }
  CHECK_FALSE(wrote);
  for (const AccessRecord& record : server.stop_and_get_records()) CHECK(record.complete);
}

TEST_CASE(
    "every answer to an admitted request has the gate's headers, and what the handler reports is logged") {
  HttpServerOptions options;
  options.max_body_bytes = 8;
  const HttpServer::Gate gate = [](HttpRequest&) {
    Admission admission{.headers = {{"Vary", "Origin"}}};
    admission.answer = [](const HttpRequest& request, ResponseWriter& writer) {
      writer.report({.n_prompt = 7});
      if (request.path == "/throw") throw std::runtime_error("secret detail");
      if (request.path == "/silent") return;
      if (request.path == "/written") return write_braces(writer);
      HttpResponse late = text("late");
      late.status = 503;
      writer.send(late);
    };
    return admission;
  };
  Fixture server(gate, options);
  const auto ask = [&](const std::string& path) {
    return server.ask("GET " + path + " HTTP/1.1\r\n" + kClose + "\r\n");
  };
  const std::string written = ask("/written"), late = ask("/late"), throws = ask("/throw"),
                    none = ask("/silent");
  const std::string too_large = server.ask("POST /late HTTP/1.1\r\n" + kClose +
                                           "Transfer-Encoding: chunked\r\n\r\n9\r\n123456789\r\n0\r\n\r\n");
  CHECK(starts_with(written, "HTTP/1.1 200 "));
  CHECK_THAT(written, ContainsSubstring("{}"));
  CHECK(starts_with(late, "HTTP/1.1 503 "));
  CHECK_THAT(late, ContainsSubstring("\r\n\r\nlate"));
  for (const std::string& answer : {throws, none}) CHECK(starts_with(answer, "HTTP/1.1 500 "));
  CHECK_THAT(throws, !ContainsSubstring("secret"));
  CHECK(starts_with(too_large, "HTTP/1.1 413 "));
  for (const std::string& answer : {written, late, throws, none, too_large})
    CHECK_THAT(answer, ContainsSubstring("\r\nVary: Origin\r\n"));
  CHECK(server.failures() == std::vector<std::string>{"secret detail", "a handler made no answer"});
  const std::vector<AccessRecord> records = server.stop_and_get_records();
  REQUIRE(records.size() == 5);
  REQUIRE(records[1].generation);
  CHECK(records[1].generation->n_prompt == 7);
  CHECK(records[1].complete);
}

TEST_CASE("what the gate gives to an answer lasts until the answer has ended, and no longer") {
  const auto place = std::make_shared<int>(0);
  std::atomic<long> n_holders{0};
  const HttpServer::Gate gate = [&](HttpRequest&) {
    return Admission{.answer = [&n_holders, place](const HttpRequest&, ResponseWriter& writer) {
      writer.begin("text/plain", {});
      n_holders = place.use_count();
      writer.finish();
    }};
  };
  Fixture server(gate);
  server.ask("GET / HTTP/1.1\r\n" + kClose + "\r\n");
  server.stop_and_get_records();
  CHECK(n_holders == 2);
  CHECK(place.use_count() == 1);
}

TEST_CASE("a handler's exception is a 500 that leaks nothing, and the server goes on") {
  Fixture server([](const HttpRequest&) -> HttpResponse { throw std::runtime_error("secret detail"); });
  for (int i = 0; i < 2; ++i) {
    const std::string answer = server.ask("GET / HTTP/1.1\r\n" + kClose + "\r\n");
    CHECK(starts_with(answer, "HTTP/1.1 500 "));
    CHECK_THAT(answer, ContainsSubstring("x-should-retry: false"));
    CHECK_THAT(answer, !ContainsSubstring("secret"));
  }
  CHECK(server.failures().size() == 2);
}

TEST_CASE("without memory for a line of the access log one connection is lost, and the server goes on") {
  std::atomic<int> n_records{0}, n_failures{0};
  HttpServerOptions options;
  options.port = 0;
  HttpServer server(
      options, open_gate(echo),
      [&n_records](const AccessRecord&) {
        if (++n_records == 1) throw std::bad_alloc();
      },
      [&n_failures](const std::string&, const std::string&) { ++n_failures; });
  server.start();
  RawClient unlucky(server.port());
  unlucky.send("GET / HTTP/1.1\r\nHost: h\r\n\r\n");
  while (n_failures == 0) std::this_thread::sleep_for(milliseconds(1));
  CHECK(server.wait_until_idle(milliseconds(60'000)));
  CHECK(starts_with(ask(server.port(), "GET / HTTP/1.1\r\n" + kClose + "\r\n"), "HTTP/1.1 200 "));
  server.stop(milliseconds(60'000));
  CHECK(n_records == 2);
  CHECK(n_failures == 1);
}

TEST_CASE("a client that leaves is noticed while nothing is written, with unread bytes in between too") {
  std::atomic<int> started{0}, noticed{0};
  Fixture server([&started, &noticed](const HttpRequest&, ResponseWriter& writer) {
    writer.begin("text/plain", {});
    ++started;
    while (writer.client_alive()) std::this_thread::sleep_for(milliseconds(2));
    ++noticed;
  });
  for (const std::string extra : {"", "GET /pipelined"}) {
    RawClient client(server.port());
    client.send("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 0\r\n\r\n" + extra);
    client.read_until("\r\n\r\n");
    while (started == noticed) std::this_thread::sleep_for(milliseconds(1));
    client.close();
    while (started != noticed) std::this_thread::sleep_for(milliseconds(1));
  }
  const std::vector<AccessRecord> records = server.stop_and_get_records();
  CHECK(noticed == 2);
  REQUIRE(records.size() == 2);
  CHECK_FALSE(records[0].complete);
}
