// See the header.
#include "server/models/exchange.h"

#include <charconv>
#include <memory>
#include <utility>

#include "config/version.h"
#include "kernels/base/file_error.h"
#include "profiler/store/hub.h"

namespace hearth {
namespace {

constexpr size_t kMostLineBytes = 16 << 10;
constexpr long kConnectSeconds = 20;
// A connection that receives nothing for this long is closed, and the request is repeated.
constexpr long kSilentSeconds = 30;

struct UrlDeleter {
  void operator()(CURLU* url) const { curl_url_cleanup(url); }
};
using Url = std::unique_ptr<CURLU, UrlDeleter>;

Url parsed(const std::string& text) {
  Url url(curl_url());
  if (!url || curl_url_set(url.get(), CURLUPART_URL, text.c_str(), 0) != CURLUE_OK)
    throw PullError(file_error::quoted(text) + " is no URL");
  return url;
}

std::string part_of(const Url& url, CURLUPart part, unsigned flags = 0) {
  char* text = nullptr;
  if (curl_url_get(url.get(), part, &text, flags) != CURLUE_OK) return {};
  std::string copy = text;
  curl_free(text);
  return copy;
}

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  while (!text.empty() &&
         (text.back() == ' ' || text.back() == '\t' || text.back() == '\r' || text.back() == '\n'))
    text.remove_suffix(1);
  return text;
}

std::optional<uint64_t> decimal(std::string_view text) {
  uint64_t number = 0;
  const std::from_chars_result result = std::from_chars(text.data(), text.data() + text.size(), number);
  if (result.ec != std::errc() || result.ptr != text.data() + text.size()) return std::nullopt;
  return number;
}

/// Reads the value of a Content-Range header, such as "bytes 0-99/1000".
void read_content_range(std::string_view value, TransferHead& head) {
  head.bad_range = true;
  if (!lower_case(value.substr(0, 6)).starts_with("bytes ")) return;
  value = trimmed(value.substr(6));
  const size_t dash = value.find('-'), slash = value.find('/');
  if (dash == std::string_view::npos || slash == std::string_view::npos || dash > slash) return;
  const std::optional<uint64_t> first = decimal(value.substr(0, dash)),
                                last = decimal(value.substr(dash + 1, slash - dash - 1)),
                                total = decimal(value.substr(slash + 1));
  if (!first || !last || !total || *first > *last || *last >= *total) return;
  head.content_range = ByteRange{*first, *last + 1};
  head.content_total = *total;
  head.bad_range = false;
}

/// Returns an entity tag without W/ and quotes, because the hub and the servers to which it redirects quote
/// tags differently.
std::string bare_etag(std::string_view value) {
  if (value.starts_with("W/")) value.remove_prefix(2);
  if (value.size() >= 2 && value.front() == '"' && value.back() == '"')
    value = value.substr(1, value.size() - 2);
  return std::string(value);
}

}  // namespace

std::string origin_of(const std::string& url) {
  const Url parts = parsed(url);
  return lower_case(part_of(parts, CURLUPART_SCHEME) + "://" + part_of(parts, CURLUPART_HOST)) + ":" +
         part_of(parts, CURLUPART_PORT, CURLU_DEFAULT_PORT);
}

bool may_carry_token(const std::string& endpoint, const std::string& url) {
  return !endpoint.empty() && origin_of(endpoint) == origin_of(url);
}

std::string next_url(const std::string& url, const std::string& location) {
  const Url parts = parsed(url);
  const std::string before = part_of(parts, CURLUPART_SCHEME);
  if (location.empty() || curl_url_set(parts.get(), CURLUPART_URL, location.c_str(), 0) != CURLUE_OK)
    throw PullError(origin_of(url) + " redirects to an invalid address (" + file_error::quoted(location) +
                    ")");
  const std::string after = part_of(parts, CURLUPART_SCHEME);
  if (after != "https" && after != "http")
    throw PullError(origin_of(url) + " leads to an address of " + file_error::quoted(after) +
                    ", which is not followed");
  if (before == "https" && after == "http") {
    throw PullError(
        origin_of(url) +
        " redirects from https to http, where the file could be changed on the way; it is not followed");
  }
  return part_of(parts, CURLUPART_URL);
}

void read_head_line(std::string_view line, TransferHead& head) {
  if (line.size() > kMostLineBytes) return;
  if (line.starts_with("HTTP/")) {
    head = TransferHead();
    const size_t space = line.find(' ');
    if (space != std::string_view::npos)
      head.status = static_cast<int>(decimal(trimmed(line.substr(space, 4))).value_or(0));
    return;
  }
  const size_t colon = line.find(':');
  if (colon == std::string_view::npos) return;
  const std::string name = lower_case(line.substr(0, colon));
  const std::string_view value = trimmed(line.substr(colon + 1));
  if (name == "location") head.location = value;
  if (name == "etag") head.etag = bare_etag(value);
  if (name == "x-linked-etag") head.linked_etag = bare_etag(value);
  if (name == "last-modified") head.last_modified = value;
  if (name == "x-error-code") head.error_code = value;
  if (name == "content-encoding") head.content_encoding = lower_case(value);
  if (name == "content-length") head.content_length = decimal(value);
  if (name == "content-range") read_content_range(value, head);
}

// The first handle also initializes libcurl. This is safe, because downloads run on one thread.
Exchange::Exchange() : handle_(curl_easy_init()) {
  if (handle_ == nullptr) throw PullError("libcurl has no memory for a request");
}

Exchange::~Exchange() {
  curl_easy_cleanup(handle_);
  curl_slist_free_all(headers_);
}

CURLcode Exchange::request(const std::string& url, uint64_t from, const RequestOptions& options,
                           const Take& take, const Tick& tick) {
  url_ = url;
  head_ = TransferHead();
  details_[0] = 0;
  take_ = &take;
  tick_ = &tick;
  prepare(from, options);
  const CURLcode code = curl_easy_perform(handle_);
  if (thrown_) std::rethrow_exception(std::exchange(thrown_, nullptr));
  return code;
}

void Exchange::prepare(uint64_t from, const RequestOptions& options) {
  const auto set = [&](CURLoption option, auto value) {
    if (curl_easy_setopt(handle_, option, value) != CURLE_OK)
      throw PullError("libcurl refuses option " + std::to_string(option));
  };
  curl_easy_reset(handle_);  // keeps the connection
  set(CURLOPT_URL, url_.c_str());
  set(CURLOPT_FOLLOWLOCATION, 0L);
  // HTTP/2 does not speed up a single stream, and its flow-control windows can slow it down.
  set(CURLOPT_HTTP_VERSION, static_cast<long>(CURL_HTTP_VERSION_1_1));
  set(CURLOPT_NOSIGNAL, 1L);
  set(CURLOPT_CONNECTTIMEOUT, kConnectSeconds);
  set(CURLOPT_LOW_SPEED_LIMIT, 1L);
  set(CURLOPT_LOW_SPEED_TIME, kSilentSeconds);
  set(CURLOPT_ERRORBUFFER, static_cast<char*>(details_));
  const std::string agent = std::string("hearthd/") + hearth_version();
  set(CURLOPT_USERAGENT, agent.c_str());
  if (!options.certificates.empty()) set(CURLOPT_CAINFO, options.certificates.c_str());
  if (options.local) {
    set(CURLOPT_NOPROXY, "*");
    set(CURLOPT_SSL_VERIFYPEER, 0L);
    set(CURLOPT_SSL_VERIFYHOST, 0L);
  }
  set(CURLOPT_HEADERFUNCTION, &Exchange::on_head);
  set(CURLOPT_HEADERDATA, static_cast<void*>(this));
  set(CURLOPT_WRITEFUNCTION, &Exchange::on_body);
  set(CURLOPT_WRITEDATA, static_cast<void*>(this));
  set(CURLOPT_NOPROGRESS, 0L);
  set(CURLOPT_XFERINFOFUNCTION, &Exchange::on_progress);
  set(CURLOPT_XFERINFODATA, static_cast<void*>(this));
  if (options.json != nullptr) {
    if (headers_ == nullptr) headers_ = curl_slist_append(nullptr, "Content-Type: application/json");
    set(CURLOPT_HTTPHEADER, headers_);
    set(CURLOPT_POSTFIELDSIZE_LARGE, static_cast<curl_off_t>(options.json->size()));
    set(CURLOPT_POSTFIELDS, options.json->c_str());
    set(CURLOPT_LOW_SPEED_TIME, 0L);
  }
  if (from > 0) {
    const std::string range = std::to_string(from) + "-";
    set(CURLOPT_RANGE, range.c_str());
  }
  if (!options.token.empty() && may_carry_token(options.endpoint, url_)) {
    set(CURLOPT_HTTPAUTH, static_cast<long>(CURLAUTH_BEARER));
    set(CURLOPT_XOAUTH2_BEARER, options.token.c_str());
  }
}

int64_t Exchange::retry_after_s() const {
  curl_off_t seconds = 0;
  return curl_easy_getinfo(handle_, CURLINFO_RETRY_AFTER, &seconds) == CURLE_OK ? seconds : 0;
}

std::string Exchange::failure(CURLcode code) const {
  return details_[0] == 0 ? curl_easy_strerror(code) : file_error::file_label(details_);
}

size_t Exchange::on_head(char* bytes, size_t size, size_t n, void* self) {
  read_head_line({bytes, size * n}, static_cast<Exchange*>(self)->head_);
  return size * n;
}

size_t Exchange::on_body(char* bytes, size_t size, size_t n, void* self) noexcept {
  Exchange& exchange = *static_cast<Exchange*>(self);
  try {
    return (*exchange.take_)(exchange.head_, {bytes, size * n}) ? size * n : 0;
  } catch (...) {
    exchange.thrown_ = std::current_exception();
    return 0;
  }
}

int Exchange::on_progress(void* self, curl_off_t, curl_off_t, curl_off_t, curl_off_t) noexcept {
  Exchange& exchange = *static_cast<Exchange*>(self);
  try {
    (*exchange.tick_)();
    return 0;
  } catch (...) {
    exchange.thrown_ = std::current_exception();
    return 1;
  }
}

bool is_passing(CURLcode code) {
  switch (code) {
    case CURLE_COULDNT_RESOLVE_HOST:
    case CURLE_COULDNT_RESOLVE_PROXY:
    case CURLE_COULDNT_CONNECT:
    case CURLE_PARTIAL_FILE:
    case CURLE_OPERATION_TIMEDOUT:
    case CURLE_SSL_CONNECT_ERROR:
    case CURLE_GOT_NOTHING:
    case CURLE_SEND_ERROR:
    case CURLE_RECV_ERROR:
    case CURLE_WEIRD_SERVER_REPLY:
      return true;
    default:
      return false;
  }
}

}  // namespace hearth
