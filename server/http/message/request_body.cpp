// See the header. The chunked coding is RFC 9112, 7.1.
#include "server/http/message/request_body.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <string_view>

#include "server/http/message/inflater.h"

namespace hearth {
namespace {

// Limit of the first line of a chunk, which holds the chunk's size and extensions (clients do not send
// extensions). Chunk lines do not count toward the body's size. With this limit, a body in chunks of one byte
// each makes the server receive about a hundred times the body's size at most.
constexpr size_t kMaxChunkLineBytes = 128;
// Trailers contain checksums and signatures. They are read and discarded.
constexpr size_t kMaxTrailerBytes = 8 * 1024;

enum class Outcome { kGood, kCutShort, kBadlyChunked, kDamaged, kTooLarge };

/// Collects the bytes of a body as they are received.
class Collector {
 public:
  Collector(ContentCoding coding, uint64_t max_bytes, std::string& body)
      : is_compressed_(coding != ContentCoding::kIdentity),
        inflater_(coding == ContentCoding::kGzip ? Inflater::Format::kGzip : Inflater::Format::kDeflate),
        max_bytes_(max_bytes),
        body_(body) {}

  /// Whether n more received bytes are within the limit.
  bool has_room_for(uint64_t n) const { return n <= max_bytes_ - n_wire_bytes_; }
  /// REQUIRES: has_room_for(bytes.size()).
  Outcome take(std::string_view bytes) {
    n_wire_bytes_ += bytes.size();
    if (!is_compressed_) {
      body_ += bytes;
      return Outcome::kGood;
    }
    const Inflater::Result result = inflater_.take(bytes, max_bytes_, body_);
    if (result == Inflater::Result::kTooLarge) return Outcome::kTooLarge;
    return result == Inflater::Result::kGood ? Outcome::kGood : Outcome::kDamaged;
  }
  Outcome finish() const {
    return !is_compressed_ || n_wire_bytes_ == 0 || inflater_.at_end() ? Outcome::kGood : Outcome::kDamaged;
  }

 private:
  const bool is_compressed_;
  Inflater inflater_;
  const uint64_t max_bytes_;
  uint64_t n_wire_bytes_ = 0;
  std::string& body_;
};

Outcome read_bytes(uint64_t n, const ReadBytes& read, Collector& collector) {
  if (!collector.has_room_for(n)) return Outcome::kTooLarge;
  std::array<char, 16 * 1024> block;
  while (n > 0) {
    const ssize_t got = read(block.data(), static_cast<size_t>(std::min<uint64_t>(n, block.size())));
    if (got <= 0) return Outcome::kCutShort;
    n -= static_cast<uint64_t>(got);
    const Outcome outcome = collector.take({block.data(), static_cast<size_t>(got)});
    if (outcome != Outcome::kGood) return outcome;
  }
  return Outcome::kGood;
}

/// Reads a line and drops its CRLF. Reads byte by byte, so that no byte after the line is consumed. Returns
/// kBadlyChunked if the line is too long, or has control characters or a bare LF.
Outcome read_line(size_t max_bytes, const ReadBytes& read, std::string& line) {
  line.clear();
  for (char c = 0; line.size() <= max_bytes;) {
    if (read(&c, 1) != 1) return Outcome::kCutShort;
    if (c == '\r') {
      if (read(&c, 1) != 1) return Outcome::kCutShort;
      return c == '\n' ? Outcome::kGood : Outcome::kBadlyChunked;
    }
    if ((static_cast<unsigned char>(c) < ' ' && c != '\t') || c == 127) return Outcome::kBadlyChunked;
    line += c;
  }
  return Outcome::kBadlyChunked;
}

/// Example: "1a" or "1a;name=value" -> 26. Returns nullopt if the line is malformed or the size exceeds 64
/// bits.
std::optional<uint64_t> chunk_size(std::string_view line) {
  uint64_t size = 0;
  const auto [end, error] = std::from_chars(line.data(), line.data() + line.size(), size, 16);
  std::string_view rest = line.substr(static_cast<size_t>(end - line.data()));
  rest.remove_prefix(std::min(rest.find_first_not_of(" \t"), rest.size()));
  if (error != std::errc() || (!rest.empty() && rest.front() != ';')) return std::nullopt;
  return size;
}

Outcome read_trailers(const ReadBytes& read) {
  std::string line;
  for (size_t n_bytes = 0; n_bytes <= kMaxTrailerBytes; n_bytes += line.size() + 2) {
    const Outcome outcome = read_line(kMaxTrailerBytes, read, line);
    if (outcome != Outcome::kGood || line.empty()) return outcome;
  }
  return Outcome::kBadlyChunked;
}

Outcome read_chunks(const ReadBytes& read, Collector& collector) {
  std::string line;
  for (;;) {
    Outcome outcome = read_line(kMaxChunkLineBytes, read, line);
    if (outcome != Outcome::kGood) return outcome;
    const std::optional<uint64_t> size = chunk_size(line);
    if (!size) return Outcome::kBadlyChunked;
    if (*size == 0) return read_trailers(read);
    outcome = read_bytes(*size, read, collector);
    if (outcome == Outcome::kGood) outcome = read_line(0, read, line);
    if (outcome != Outcome::kGood) return outcome;
  }
}

std::optional<ApiError> refusal(Outcome outcome, uint64_t max_bytes) {
  switch (outcome) {
    case Outcome::kGood:
      return std::nullopt;
    case Outcome::kTooLarge:
      return body_too_large(max_bytes);
    case Outcome::kDamaged:
      return ApiError{
          400,
          "the request body is not in the format that its Content-Encoding names, or is damaged or cut short",
          "", ""};
    case Outcome::kBadlyChunked:
      return ApiError{400, "the request body is badly chunked; the client or a proxy breaks HTTP's framing",
                      "", ""};
    case Outcome::kCutShort:
      break;
  }
  return ApiError{400, "the request body ended early or came too slowly; send it again", "", ""};
}

}  // namespace

std::optional<ApiError> receive_body(const BodyFraming& framing, uint64_t max_bytes, const ReadBytes& read,
                                     std::string& body) {
  Collector collector(framing.coding, max_bytes, body);
  Outcome outcome =
      framing.is_chunked ? read_chunks(read, collector) : read_bytes(framing.length, read, collector);
  if (outcome == Outcome::kGood) outcome = collector.finish();
  return refusal(outcome, max_bytes);
}

ApiError body_too_large(uint64_t max_body_bytes) {
  return {413,
          "the request body is larger than " + std::to_string(max_body_bytes >> 20) +
              " MiB; send less, or have the server started with a larger --max-body-mib",
          "", ""};
}

}  // namespace hearth
