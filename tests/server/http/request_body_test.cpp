// Bodies byte by byte: chunks, trailers, compression, and errors in them.
#include "server/http/message/request_body.h"

#include <zlib.h>

#include <algorithm>
#include <cstring>

#include "tests/support/catch.h"

using namespace hearth;

namespace {

/// Compresses with zlib. window_bits as for deflateInit2: 31 for gzip, 15 for zlib's format, -15 for bare
/// deflate.
std::string compressed(std::string_view text, int window_bits) {
  z_stream stream{};
  REQUIRE(::deflateInit2(&stream, 9, Z_DEFLATED, window_bits, 8, Z_DEFAULT_STRATEGY) == Z_OK);
  std::string out(::deflateBound(&stream, static_cast<uLong>(text.size())) + 32, '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  stream.avail_in = static_cast<uInt>(text.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  REQUIRE(::deflate(&stream, Z_FINISH) == Z_STREAM_END);
  out.resize(stream.total_out);
  ::deflateEnd(&stream);
  return out;
}

/// A client that sends these bytes, at most `piece` at a time, and then closes.
struct Wire {
  std::string bytes;
  size_t piece = 1 << 20;
  size_t used = 0;
  ssize_t read(char* to, size_t size) {
    const size_t n = std::min({size, piece, bytes.size() - used});
    std::memcpy(to, bytes.data() + used, n);
    used += n;
    return static_cast<ssize_t>(n);
  }
};

struct Received {
  int status = 200;
  std::string body;
  size_t n_read = 0;  // bytes read from the wire
};

Received receive(Wire wire, BodyFraming framing, uint64_t max_bytes = 1 << 20) {
  Received received;
  const std::optional<ApiError> error = receive_body(
      framing, max_bytes, [&wire](char* to, size_t size) { return wire.read(to, size); }, received.body);
  if (error) received.status = error->status;
  received.n_read = wire.used;
  return received;
}

Received chunked(const std::string& bytes, ContentCoding coding = ContentCoding::kIdentity) {
  return receive({.bytes = bytes}, {.is_chunked = true, .coding = coding});
}

Received coded(const std::string& bytes, ContentCoding coding, uint64_t max_bytes = 1 << 20) {
  return receive({.bytes = bytes}, {.length = bytes.size(), .coding = coding}, max_bytes);
}

}  // namespace

TEST_CASE("request body: chunks are joined, trailers and extensions dropped, and the rest is untouched") {
  const std::string good = "3\r\nhel\r\n2;name=value\r\nlo\r\n0\r\nX-Checksum: abc\r\nX-Other: d\r\n\r\n";
  const Received received = chunked(good + "GET /next");
  CHECK(received.status == 200);
  CHECK(received.body == "hello");
  CHECK(received.n_read == good.size());
  CHECK(chunked("0\r\n\r\n").body.empty());
  CHECK(chunked("A \r\n0123456789\r\n000\r\n\r\n").body == "0123456789");
}

TEST_CASE("request body: chunks that a proxy may read differently are refused") {
  for (const std::string bytes :
       {"3\r\nhelX\r\n0\r\n\r\n", "3\r\nhel\n0\r\n\r\n", "3\nhel\r\n0\r\n\r\n", "zz\r\n", "-1\r\n",
        "+3\r\nhel\r\n", "0x3\r\nhel\r\n", "\r\n", "3 hel\r\n\r\n", "ffffffffffffffffff\r\n",
        "3\r\nhel\r\n0\r\na\rb: c\r\n\r\n"}) {
    CAPTURE(bytes);
    CHECK(chunked(bytes + "0\r\n\r\n").status == 400);
  }
}

TEST_CASE("request body: chunk lines, trailers and early ends are bounded") {
  CHECK(chunked("3;" + std::string(100, 'x') + "\r\nhel\r\n0\r\n\r\n").status == 200);
  CHECK(chunked("3;" + std::string(200, 'x') + "\r\nhel\r\n0\r\n\r\n").status == 400);
  std::string trailers;
  for (int i = 0; i < 2000; ++i) trailers += "A: b\r\n";
  CHECK(chunked("0\r\n" + trailers + "\r\n").status == 400);
  for (const std::string bytes :
       {"", "3", "3\r", "3\r\nhe", "3\r\nhel", "3\r\nhel\r\n", "0\r\n", "0\r\nA: b\r\n"}) {
    CAPTURE(bytes);
    CHECK(chunked(bytes).status == 400);
  }
  CHECK(receive({.bytes = "hel"}, {.length = 5}).status == 400);
  // A chunk that is too large is refused at its first line, and many small ones at the one that exceeds the
  // limit.
  const Received one = receive({.bytes = "6\r\nabcdef\r\n0\r\n\r\n"}, {.is_chunked = true}, 5);
  CHECK(one.status == 413);
  CHECK(one.n_read == 3);
  CHECK(receive({.bytes = "3\r\nabc\r\n3\r\ndef\r\n0\r\n\r\n"}, {.is_chunked = true}, 5).status == 413);
  CHECK(receive({.bytes = "3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n"}, {.is_chunked = true}, 5).body == "abcde");
}

TEST_CASE("request body: gzip and both kinds of deflate are decompressed, whole or in single bytes") {
  std::string text;
  // longer than the blocks that it passes through
  for (int i = 0; i < 20'000; ++i) text += std::to_string(i * i);
  const auto check = [&text](const std::string& bytes, ContentCoding coding) {
    CHECK(coded(bytes, coding).body == text);
    CHECK(receive({.bytes = bytes, .piece = 1}, {.length = bytes.size(), .coding = coding}).body == text);
  };
  check(compressed(text, 31), ContentCoding::kGzip);
  check(compressed(text, 15), ContentCoding::kDeflate);
  check(compressed(text, -15), ContentCoding::kDeflate);
  const std::string members =
      compressed(text.substr(0, 10), 31) + compressed("", 31) + compressed(text.substr(10), 31);
  check(members, ContentCoding::kGzip);
  const std::string gzip = compressed("hello", 31);
  std::string in_chunks;
  for (const char c : gzip) in_chunks += std::string("1\r\n") + c + "\r\n";
  CHECK(chunked(in_chunks + "0\r\nA: b\r\n\r\n", ContentCoding::kGzip).body == "hello");
  CHECK(chunked("0\r\n\r\n", ContentCoding::kGzip).status == 200);
}

TEST_CASE("request body: damaged, cut and overlong compressed bodies are 400") {
  for (const int window_bits : {31, 15, -15}) {
    const ContentCoding coding = window_bits == 31 ? ContentCoding::kGzip : ContentCoding::kDeflate;
    const std::string good = compressed("{\"prompt\": \"hello hello hello\"}", window_bits);
    CAPTURE(window_bits);
    CHECK(coded(good, coding).status == 200);
    for (size_t n = 1; n < good.size(); ++n) CHECK(coded(good.substr(0, n), coding).status == 400);
    CHECK(coded(good + "x", coding).status == 400);
    if (window_bits < 0) continue;  // bare deflate has no checksum
    std::string damaged = good;
    damaged[good.size() - 6] ^= 0x10;
    CHECK(coded(damaged, coding).status == 400);
  }
  CHECK(coded("{\"prompt\": 1}", ContentCoding::kGzip).status == 400);
  CHECK(coded("{\"prompt\": 1}", ContentCoding::kDeflate).status == 400);
}

TEST_CASE("request body: the limit applies to decompressed bytes, and a bomb is refused before it is read") {
  constexpr uint64_t kLimit = 1 << 20;
  const std::string fits = compressed(std::string(kLimit, 'x'), 31);
  CHECK(coded(fits, ContentCoding::kGzip, kLimit).body.size() == kLimit);
  CHECK(coded(compressed(std::string(kLimit + 1, 'x'), 31), ContentCoding::kGzip, kLimit).status == 413);
  std::string bomb;  // a hundred members of a MiB each: 100 KB on the wire
  for (int i = 0; i < 100; ++i) bomb += fits;
  const Received received =
      receive({.bytes = bomb}, {.length = bomb.size(), .coding = ContentCoding::kGzip}, kLimit);
  CHECK(received.status == 413);
  CHECK(received.n_read < 40'000);  // two of the blocks in which it is read
  CHECK(received.body.size() <= kLimit);
}
