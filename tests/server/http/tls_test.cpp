// HTTPS over real sockets: handshakes, bytes that OpenSSL has buffered, ends of sessions, other certificates,
// and clients that do not speak TLS.
#include <atomic>
#include <csignal>
#include <fstream>
#include <thread>
#include <vector>

#include "server/process/healthcheck.h"
#include "tests/server/http/http_fixture.h"
#include "tests/server/http/tls_client.h"
#include "tests/support/catch.h"
#include "tests/support/manual_clock.h"
#include "tests/support/temp_folder.h"

using namespace hearth;
using std::chrono::milliseconds;

namespace {

/// A folder with a pair, and the identity that has read it.
struct Certified {
  Certified() { std::signal(SIGPIPE, SIG_IGN); }  // as in hearthd

  HttpServerOptions options() const {
    HttpServerOptions options;
    options.tls = &identity;
    return options;
  }

  test::TempFolder folder;
  TlsFiles files = make_certificate(folder.path(), "first");
  TlsIdentity identity{files};
};

/// The beginning of a handshake that a client sends, as many bytes as a test needs.
const std::string kHandshakeBegin = std::string("\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", 11);

std::string post_of(const std::string& path, const std::string& body) {
  return "POST " + path + " HTTP/1.1\r\nHost: h\r\nContent-Length: " + std::to_string(body.size()) +
         "\r\n\r\n" + body;
}

std::string read_refusal(const TlsFiles& files) {
  try {
    const TlsIdentity identity(files);
    return "";
  } catch (const TlsError& error) {
    return error.what();
  }
}

}  // namespace

TEST_CASE("HTTPS is spoken with TLS 1.2 and 1.3 and the protocol http/1.1") {
  const Certified own;
  const Fixture server(echo, own.options());
  for (const int version : {TLS1_2_VERSION, TLS1_3_VERSION}) {
    TlsClient client(server.port(), {.version = version, .alpn = "\x02h2\x08http/1.1"});
    REQUIRE(client.is_open());
    CHECK(client.version() == (version == TLS1_2_VERSION ? "TLSv1.2" : "TLSv1.3"));
    CHECK(client.protocol() == "http/1.1");
    client.send("GET /a HTTP/1.1\r\n" + kClose + "\r\n");
    const std::string answer = client.read_until();
    CHECK(starts_with(answer, "HTTP/1.1 200 OK\r\n"));
    CHECK_THAT(answer, ContainsSubstring("\r\n\r\nGET /a <closed>"));
  }
  CHECK(TlsClient(server.port()).protocol().empty());
  CHECK_FALSE(TlsClient(server.port(), {.version = TLS1_1_VERSION}).is_open());
  CHECK_FALSE(TlsClient(server.port(), {.alpn = "\x02h2"}).is_open());
}

TEST_CASE("bytes that OpenSSL has already received are not forgotten") {
  const Certified own;
  const Fixture server(echo, own.options());
  TlsClient client(server.port());
  // One record has three requests. The body of the second is longer than the piece in which heads are read,
  // and the third arrives while a worker answers the second.
  const std::string body(9000, 'b');
  client.send("GET /1 HTTP/1.1\r\nHost: h\r\n\r\n" + post_of("/2", body) +
              "GET /3 HTTP/1.1\r\nHost: h\r\n\r\n");
  CHECK_THAT(client.read_until("GET /1 "), ContainsSubstring("200 OK"));
  CHECK_THAT(client.read_until("GET /3 "), ContainsSubstring("POST /2 " + body));
  // Each byte has its own record.
  for (const char c : post_of("/4", "slow")) client.send(std::string(1, c));
  CHECK_THAT(client.read_until("slow"), ContainsSubstring("POST /4 slow"));
}

TEST_CASE("large bodies pass both ways over a connection that stays open") {
  const Certified own;
  const Fixture server(echo, own.options());
  TlsClient client(server.port());
  for (const size_t size : {size_t{1} << 20, size_t{3'000'001}}) {
    std::string body(size, 'x');
    for (size_t i = 0; i < size; i += 997) body[i] = static_cast<char>('a' + i % 26);
    body += "<end>";
    client.send(post_of("/big", body));
    const std::string answer = client.read_until("<end>");
    CHECK(answer.ends_with("POST /big " + body));
    CHECK_THAT(answer.substr(0, 200), ContainsSubstring("200 OK"));
  }
}

TEST_CASE("a client that stops amid the handshake occupies no thread and ends at the deadline of a head") {
  const Certified own;
  test::ManualClock clock;
  HttpServerOptions options = own.options();
  options.max_threads = 1;
  options.now = clock.reader();
  const Fixture server(echo, options);
  RawClient silent(server.port()), stopped(server.port());
  stopped.send(kHandshakeBegin);
  TlsClient other(server.port());
  other.send("GET /a HTTP/1.1\r\n" + kClose + "\r\n");
  CHECK_THAT(other.read_until(), ContainsSubstring("GET /a <closed>"));
  CHECK_FALSE(stopped.has_input());
  clock.advance(std::chrono::seconds(11));
  CHECK(stopped.read_until() == "<closed>");
  CHECK(silent.read_until() == "<closed>");
}

TEST_CASE("bytes that are no handshake end the connection, and only that") {
  const Certified own;
  const Fixture server(echo, own.options());
  for (const std::string& bytes :
       {std::string("\x16\x03\x01\x00\x05hello"), std::string(5000, '\xff'), std::string(64, '\0'),
        std::string("{\"a\": 1}"), std::string("\x15\x03\x01\x00\x02\x02\x28", 7)}) {
    RawClient client(server.port());
    client.send(bytes);
    const std::string answer = client.read_until();
    CHECK((answer.ends_with("<closed>") || answer.ends_with("<reset>")));
    CHECK(answer.find("HTTP") == std::string::npos);
  }
  RawClient gone(server.port());
  gone.send(kHandshakeBegin);
  gone.close();
  TlsClient client(server.port());
  client.send("GET /a HTTP/1.1\r\n" + kClose + "\r\n");
  CHECK_THAT(client.read_until(), ContainsSubstring("200 OK"));
}

TEST_CASE("a client without TLS is told to use it") {
  const Certified own;
  const Fixture server(echo, own.options());
  for (const std::string request :
       {"GET / HTTP/1.1\r\nHost: h\r\n\r\n", "OPTIONS * HTTP/1.1\r\nHost: h\r\n\r\n", "POST "}) {
    const std::string answer = server.ask(request);
    CHECK(starts_with(answer, "HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain\r\n"));
    CHECK_THAT(answer, ContainsSubstring("Begin the address with https://"));
    const size_t body = answer.find("\r\n\r\n") + 4;
    CHECK_THAT(answer, ContainsSubstring("Content-Length: " + std::to_string(answer.find("<closed>") - body) +
                                         "\r\n"));
  }
}

TEST_CASE("a stream arrives piece by piece, and its end can be told from a cut") {
  const Certified own;
  std::atomic<int> seen{0};
  const Fixture server(
      [&seen](const HttpRequest& request, ResponseWriter& writer) {
        writer.begin("text/event-stream", {});
        for (int i = 1; i <= 3; ++i) {
          writer.write("data: " + std::to_string(i) + "\n\n");
          while (seen < i) std::this_thread::sleep_for(milliseconds(1));
        }
        if (request.path == "/whole") writer.finish();
      },
      own.options());
  for (const std::string path : {"/whole", "/cut"}) {
    seen = 0;
    TlsClient client(server.port());
    client.send("GET " + path + " HTTP/1.0\r\n\r\n");
    for (int i = 1; i <= 3; ++i) {
      CHECK_THAT(client.read_until("data: " + std::to_string(i) + "\n\n"), ContainsSubstring("data: "));
      seen = i;
    }
    CHECK(client.read_until() == (path == "/whole" ? "<closed>" : "<cut>"));
  }
}

TEST_CASE("a TLS client that leaves is noticed while nothing is written, whether it ends TCP or only TLS") {
  const Certified own;
  std::atomic<int> started{0}, noticed{0};
  const Fixture server(
      [&started, &noticed](const HttpRequest&, ResponseWriter& writer) {
        writer.begin("text/plain", {});
        ++started;
        while (writer.client_alive()) std::this_thread::sleep_for(milliseconds(2));
        ++noticed;
      },
      own.options());
  for (const bool ends_tcp : {true, false}) {
    TlsClient client(server.port());
    client.send("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 0\r\n\r\n");
    client.read_until("\r\n\r\n");
    while (started == noticed) std::this_thread::sleep_for(milliseconds(1));
    if (ends_tcp) client.close();
    if (!ends_tcp) client.end_session();
    while (started != noticed) std::this_thread::sleep_for(milliseconds(1));
  }
  CHECK(noticed == 2);
}

TEST_CASE("input during an answer does not make the client count as gone, and is read afterwards") {
  const Certified own;
  std::atomic<bool> go_on{false};
  std::atomic<int> looks{0}, gone{0};
  const Fixture server(
      [&](const HttpRequest& request, ResponseWriter& writer) {
        const auto must_wait = [&] {
          if (!writer.client_alive()) ++gone;
          ++looks;
          return request.path == "/1" && !go_on;
        };
        while (must_wait()) std::this_thread::sleep_for(milliseconds(1));
        writer.send(text(request.path + " done"));
      },
      own.options());
  TlsClient client(server.port());
  client.send("GET /1 HTTP/1.1\r\nHost: h\r\n\r\n");
  client.send("GET /2 HTTP/1.1\r\nHost: h\r\n");
  const int before = looks;
  while (looks < before + 3) std::this_thread::sleep_for(milliseconds(1));
  go_on = true;
  CHECK_THAT(client.read_until(" done"), ContainsSubstring("/1 done"));
  client.send("\r\n");
  CHECK_THAT(client.read_until(" done"), ContainsSubstring("/2 done"));
  CHECK(gone == 0);
}

TEST_CASE("the end of a session is answered, and idle sessions are ended with an announcement") {
  const Certified own;
  test::ManualClock clock;
  HttpServerOptions options = own.options();
  options.now = clock.reader();
  const Fixture server(echo, options);
  TlsClient leaving(server.port()), idle(server.port());
  leaving.end_session();
  CHECK(leaving.read_until() == "<closed>");
  idle.send("GET /a HTTP/1.1\r\nHost: h\r\n\r\n");
  CHECK_THAT(idle.read_until("GET /a "), ContainsSubstring("Keep-Alive"));
  const auto is_open = [&] {
    clock.advance(std::chrono::seconds(100));
    return !idle.has_input();
  };
  // The worker may not have given the connection back to the poller yet.
  while (is_open()) std::this_thread::sleep_for(milliseconds(1));
  CHECK(idle.read_until() == "<closed>");
}

TEST_CASE("a client that reads nothing is cut off") {
  const Certified own;
  HttpServerOptions options = own.options();
  options.stall_time = milliseconds(300);
  std::atomic<bool> cut{false};
  const Fixture server(
      [&cut](const HttpRequest&, ResponseWriter& writer) {
        writer.begin("text/plain", {});
        const std::string piece(1 << 16, 'x');
        while (writer.write(piece)) {
        }
        cut = true;
      },
      options);
  TlsClient client(server.port());
  client.send("GET / HTTP/1.1\r\nHost: h\r\n\r\n");
  while (!cut) std::this_thread::sleep_for(milliseconds(1));
  CHECK(client.read_until().ends_with("<cut>"));
}

TEST_CASE("another certificate is for new connections, and an unusable one changes nothing") {
  Certified own;
  const Fixture server(echo, own.options());
  TlsClient before(server.port());
  CHECK(before.server_name() == "first");
  const TlsFiles second = make_certificate(own.folder.path(), "second");
  std::filesystem::copy_file(second.certificate, own.files.certificate,
                             std::filesystem::copy_options::overwrite_existing);
  CHECK_THROWS_WITH(own.identity.read_again(), ContainsSubstring("does not belong to the first certificate"));
  CHECK(TlsClient(server.port()).server_name() == "first");
  std::filesystem::copy_file(second.key, own.files.key, std::filesystem::copy_options::overwrite_existing);
  own.identity.read_again();
  TlsClient after(server.port());
  CHECK(after.server_name() == "second");
  CHECK(own.identity.facts().names == std::vector<std::string>{"second", "127.0.0.1"});
  for (TlsClient* client : {&before, &after}) {
    client->send("GET /a HTTP/1.1\r\n" + kClose + "\r\n");
    CHECK_THAT(client->read_until(), ContainsSubstring("GET /a <closed>"));
  }
}

TEST_CASE("a pair that cannot be used is refused with the file, the reason and the remedy") {
  const Certified own;
  const TlsFiles& good = own.files;
  const std::string missing = own.folder.path() / "missing.pem", text_file = own.folder.path() / "text.pem";
  std::ofstream(text_file) << "not PEM\n";
  CHECK(read_refusal(good).empty());
  CHECK_THAT(read_refusal({.certificate = missing, .key = good.key}),
             ContainsSubstring("--tls-cert " + missing + " cannot be read: No such file"));
  CHECK_THAT(read_refusal({.certificate = good.certificate, .key = missing}),
             ContainsSubstring("--tls-key " + missing + " cannot be read: No such file"));
  CHECK_THAT(read_refusal({.certificate = own.folder.path(), .key = good.key}),
             ContainsSubstring("is not a file of at most 1 MiB"));
  CHECK_THAT(read_refusal({.certificate = text_file, .key = good.key}),
             ContainsSubstring("has no usable certificate (no start line)"));
  CHECK_THAT(read_refusal({.certificate = good.certificate, .key = text_file}),
             ContainsSubstring("has no usable private key"));
  CHECK_THAT(read_refusal({.certificate = good.key, .key = good.key}),
             ContainsSubstring("has no usable certificate"));
  const TlsFiles locked = make_certificate(own.folder.path(), "locked", 3600, "secret");
  CHECK_THAT(read_refusal(locked), ContainsSubstring("is encrypted, and hearthd asks for no passphrase"));
  const TlsFiles other = make_certificate(own.folder.path(), "other");
  CHECK_THAT(read_refusal({.certificate = good.certificate, .key = other.key}),
             ContainsSubstring("does not belong to the first certificate of --tls-cert"));
}

TEST_CASE("the facts of a certificate name its hosts and warn about its dates") {
  const Certified own;
  CHECK_THAT(describe(own.identity.facts()), ContainsSubstring("first, 127.0.0.1, valid until 2"));
  CHECK(date_warning(own.identity.facts(), "c.pem").empty());
  const TlsIdentity old(make_certificate(own.folder.path(), "old", -60));
  CHECK_THAT(date_warning(old.facts(), "c.pem"), ContainsSubstring("the certificate c.pem expired on 2"));
}

TEST_CASE("the healthcheck asks a TLS port over TLS") {
  const Certified own;
  const Fixture server(echo, own.options());
  CHECK(check_health("127.0.0.1", server.port(), true).healthy);
  CHECK_FALSE(check_health("127.0.0.1", server.port()).healthy);
  const Fixture plain(echo);
  const HealthcheckResult refused = check_health("127.0.0.1", plain.port(), true);
  CHECK_FALSE(refused.healthy);
  CHECK_THAT(refused.answer, ContainsSubstring("does not complete a TLS handshake"));
}

TEST_CASE("many TLS clients at once get their own answers while the certificate changes") {
  Certified own;
  const Fixture server(echo, own.options());
  std::atomic<int> right{0};
  std::vector<std::thread> clients;
  for (int c = 0; c < 6; ++c) {
    clients.emplace_back([&, c] {
      for (int i = 0; i < 5; ++i) {
        TlsClient client(server.port());
        const std::string body(20'000, static_cast<char>('a' + c));
        client.send(post_of("/" + std::to_string(c), body));
        client.send("GET /end HTTP/1.1\r\n" + kClose + "\r\n");
        if (client.read_until().find("POST /" + std::to_string(c) + " " + body) != std::string::npos) ++right;
      }
    });
  }
  for (int i = 0; i < 20; ++i) own.identity.read_again();
  for (std::thread& client : clients) client.join();
  CHECK(right == 30);
}
