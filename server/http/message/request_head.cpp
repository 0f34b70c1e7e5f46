// See the header.
#include "server/http/message/request_head.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdio>
#include <random>

#include "server/http/message/header_text.h"
#include "server/http/message/query.h"

namespace hearth {
namespace {

constexpr std::array<std::string_view, 9> kMethods = {"GET",     "HEAD",    "POST",  "PUT",  "DELETE",
                                                      "CONNECT", "OPTIONS", "TRACE", "PATCH"};

/// Returns the text up to the separator, or all of `rest` if there is no separator. Removes the text and the
/// separator from `rest`.
std::string_view next_part(std::string_view& rest, std::string_view separator) {
  const size_t end = std::min(rest.find(separator), rest.size());
  const std::string_view part = rest.substr(0, end);
  rest.remove_prefix(std::min(end + separator.size(), rest.size()));
  return part;
}

/// Returns the path that is compared with the routes. Removes the scheme and host of an absolute URL, doubled
/// slashes and trailing slashes ("/v1//models/" -> "/v1/models"). Returns "/" if nothing is left. Keeps dots,
/// because the server serves no files.
std::string normalized_path(std::string_view path) {
  for (const std::string_view scheme : {"http://", "https://"}) {
    if (path.substr(0, scheme.size()) != scheme) continue;
    path.remove_prefix(scheme.size());
    path.remove_prefix(std::min(path.find('/'), path.size()));
  }
  std::string out = "/";
  for (char c : path) {
    if (c != '/' || out.back() != '/') out += c;
  }
  if (out.size() > 1 && out.back() == '/') out.pop_back();
  return out;
}

/// Returns the client's x-request-id if it is 1 to 128 plain characters (letters, digits and -_.:/+=@), else
/// a new id.
std::string request_id_from(std::string_view client_id) {
  constexpr std::string_view kPlain =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.:/+=@";
  if (!client_id.empty() && client_id.size() <= 128 &&
      client_id.find_first_not_of(kPlain) == std::string_view::npos) {
    return std::string(client_id);
  }
  thread_local std::mt19937_64 bits{std::random_device{}()};  // ids need not be secret
  char text[40];
  std::snprintf(text, sizeof(text), "req-%016llx", static_cast<unsigned long long>(bits()));
  return text;
}

/// Returns the text between '?' and '#'.
std::string query_of(std::string_view target) {
  target = target.substr(0, target.find('#'));
  const size_t mark = target.find('?');
  return std::string(mark == std::string_view::npos ? std::string_view() : target.substr(mark + 1));
}

/// Reads "METHOD target HTTP/1.x". Returns false if the line has another form.
bool parse_request_line(std::string_view line, RequestHead& head) {
  head.request.method = next_part(line, " ");
  std::string_view target = next_part(line, " ");
  head.request.path = normalized_path(percent_decoded(target.substr(0, target.find_first_of("?#"))));
  head.request.query = query_of(target);
  head.framing.is_http10 = line == "HTTP/1.0";
  return !target.empty() && (line == "HTTP/1.1" || line == "HTTP/1.0") &&
         std::find(kMethods.begin(), kMethods.end(), head.request.method) != kMethods.end();
}

/// Returns the values of all header lines with this name, in order, without joining them.
std::vector<std::string_view> values_of(const HttpRequest& request, std::string_view name) {
  std::vector<std::string_view> values;
  for (const auto& [key, value] : request.headers) {
    if (lowered(key) == name) values.push_back(value);
  }
  return values;
}

/// Returns the coding of the body, or nullopt if it is unknown.
std::optional<ContentCoding> content_coding(const HttpRequest& request) {
  const std::vector<std::string_view> values = values_of(request, "content-encoding");
  const std::string coding = values.empty() ? "" : lowered(values[0]);
  if (values.size() > 1) return std::nullopt;
  if (coding.empty() || coding == "identity") return ContentCoding::kIdentity;
  if (coding == "gzip" || coding == "x-gzip") return ContentCoding::kGzip;
  if (coding == "deflate") return ContentCoding::kDeflate;
  return std::nullopt;
}

/// Returns how the body is delimited and compressed. Sets `fault` if the body must not be read.
BodyFraming body_framing(const HttpRequest& request, uint64_t max_body_bytes,
                         std::optional<ApiError>& fault) {
  const std::vector<std::string_view> lengths = values_of(request, "content-length");
  const std::vector<std::string_view> encodings = values_of(request, "transfer-encoding");
  const bool is_number = !lengths.empty() && !lengths[0].empty() &&
                         lengths[0].find_first_not_of("0123456789") == std::string::npos;
  const std::optional<ContentCoding> coding = content_coding(request);
  BodyFraming body{.is_chunked = !encodings.empty(), .coding = coding.value_or(ContentCoding::kIdentity)};
  // A proxy in front of this server could interpret contradictory or malformed lengths differently (RFC
  // 9112, 6.3).
  if (lengths.size() + encodings.size() > 1 || (lengths.size() == 1 && !is_number)) {
    fault = {400, "Content-Length and Transfer-Encoding of the request are contradictory or malformed", "",
             ""};
  } else if (!encodings.empty() && lowered(encodings[0]) != "chunked") {
    fault = {501, "Transfer-Encoding must be chunked or absent", "", ""};
  } else if (!coding) {
    fault = {415,
             "this Content-Encoding of the request body is not known here; send gzip, deflate or none of it",
             "", ""};
  } else if (is_number) {
    // from_chars fails on numbers that exceed 64 bits.
    const char* end = lengths[0].data() + lengths[0].size();
    const bool fits = std::from_chars(lengths[0].data(), end, body.length).ec == std::errc();
    if (!fits || body.length > max_body_bytes) fault = body_too_large(max_body_bytes);
  }
  return fault ? BodyFraming{} : body;
}

/// Whether the Connection headers contain the option ("close", "keep-alive").
bool has_connection_option(const HttpRequest& request, std::string_view option) {
  for (std::string_view options : values_of(request, "connection")) {
    while (!options.empty()) {
      if (lowered(trimmed(next_part(options, ","))) == option) return true;
    }
  }
  return false;
}

}  // namespace

std::string transport_fault(int status) {
  switch (status) {
    case 408:
      return "the request did not arrive in time; send it again";
    case 414:
      return "the request line is too long; send long values in the body";
    case 431:
      return "the request headers are too large; send fewer or shorter ones";
    case 503:
      return "the server is answering as many requests as it can; try again shortly";
    default:
      return "the bytes received are not an HTTP/1.1 request; note that this port does not speak TLS";
  }
}

RequestHead parse_head(std::string_view bytes, uint64_t max_body_bytes) {
  RequestHead head;
  const bool is_http = parse_request_line(next_part(bytes, "\r\n"), head);
  while (!bytes.empty()) {
    std::string_view line = next_part(bytes, "\r\n");
    if (line.empty()) break;
    const std::string_view name = next_part(line, ":");
    head.request.headers.emplace_back(name, trimmed(line));
  }
  head.request.request_id = request_id_from(head.request.header("x-request-id"));
  if (is_http && values_of(head.request, "host").size() > 1) {
    // A proxy in front of this server could use a different Host header (RFC 9112, 3.2).
    head.fault = {400, "the request has more than one Host header; send one", "", ""};
  } else if (is_http) {
    head.body = body_framing(head.request, max_body_bytes, head.fault);
  } else {
    head.fault = {400, transport_fault(400), "", ""};
  }
  head.framing.is_head = head.request.method == "HEAD";
  const bool is_http10 = head.framing.is_http10;
  head.expects_continue = !is_http10 && lowered(head.request.header("expect")) == "100-continue";
  // The connection closes after a chunked body. The body may have ended at a different byte than the client
  // intended, and the bytes after it must not be read as a request. An HTTP/1.0 connection closes unless the
  // client asks to keep it open.
  head.closes = head.fault || head.body.is_chunked || has_connection_option(head.request, "close") ||
                (is_http10 && !has_connection_option(head.request, "keep-alive"));
  return head;
}

}  // namespace hearth
