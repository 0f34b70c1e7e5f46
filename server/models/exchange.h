// Sends one request with libcurl and reads the head of the answer. Does not follow redirects, so that the
// callers can check each address before they send a token there.
#pragma once

#include <curl/curl.h>

#include <cstdint>
#include <exception>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

namespace hearth {

/// The bytes [begin, end).
struct ByteRange {
  uint64_t begin = 0, end = 0;
  uint64_t size() const { return end - begin; }
  bool operator==(const ByteRange&) const = default;
};

/// Returns the scheme, host and port of a URL in lower case. The port is always present:
/// "https://huggingface.co:443".
std::string origin_of(const std::string& url);

/// Whether the token of `endpoint` may be sent to `url`. Both must have the same scheme, host and port.
bool may_carry_token(const std::string& endpoint, const std::string& url);

/// Returns the absolute URL of a redirect from `url` to `location`. Throws PullError if the result is not
/// http or https, or if the redirect leads from https to http.
std::string next_url(const std::string& url, const std::string& location);

/// The head of an answer.
struct TransferHead {
  int status = 0;
  std::string location, etag, last_modified, linked_etag, error_code, content_encoding;
  std::optional<uint64_t> content_length;
  std::optional<ByteRange> content_range;  // from Content-Range; end is exclusive
  std::optional<uint64_t> content_total;   // from Content-Range
  bool bad_range = false;                  // whether Content-Range is malformed
};

/// Reads one line of a head, which includes its line end. A status line begins a new head.
void read_head_line(std::string_view line, TransferHead& head);

/// The settings of a request.
struct RequestOptions {
  std::string token;         // empty if there is no token
  std::string endpoint;      // the only hub that may get the token
  std::string certificates;  // file of trusted certificate authorities; empty: the system's
  /// Connect to a server of this machine: without a proxy, and without a check of its certificate, which need
  /// not be valid for the loopback address.
  bool local = false;
  /// A JSON body, with which the request is a POST, and may take any time. Null: a GET.
  const std::string* json = nullptr;
};

/// A libcurl handle. Successive requests reuse its connection. Not copyable or movable, because libcurl
/// stores the address of the Exchange.
class Exchange {
 public:
  /// Receives bytes of the body. Returns false to end the request.
  using Take = std::function<bool(const TransferHead& head, std::string_view bytes)>;
  /// Called whenever bytes have arrived, and about once a second if none arrive.
  using Tick = std::function<void()>;

  Exchange();
  ~Exchange();
  Exchange(const Exchange&) = delete;
  Exchange& operator=(const Exchange&) = delete;

  /// Requests a URL from byte `from` of the answer on; if `from` is 0, sends no range. Blocks until the
  /// request has ended, and returns libcurl's result. Throws PullError if the URL is malformed. An exception
  /// from `take` or `tick` ends the request and is passed on.
  CURLcode request(const std::string& url, uint64_t from, const RequestOptions& options, const Take& take,
                   const Tick& tick);

  /// The last request's head and URL.
  const TransferHead& head() const { return head_; }
  const std::string& url() const { return url_; }
  /// Returns the seconds to wait before a retry, as the server requests in Retry-After (a number of seconds
  /// or a date), or 0.
  int64_t retry_after_s() const;
  /// Returns libcurl's message for a failure, the one with details if there is one.
  std::string failure(CURLcode code) const;

 private:
  void prepare(uint64_t from, const RequestOptions& options);
  static size_t on_head(char* bytes, size_t size, size_t n, void* self);
  static size_t on_body(char* bytes, size_t size, size_t n, void* self) noexcept;
  static int on_progress(void* self, curl_off_t, curl_off_t, curl_off_t, curl_off_t) noexcept;

  CURL* handle_;
  curl_slist* headers_ = nullptr;
  std::string url_;
  TransferHead head_;
  const Take* take_ = nullptr;  // callbacks of the current request
  const Tick* tick_ = nullptr;
  std::exception_ptr thrown_;  // exception thrown by take or tick inside libcurl
  char details_[CURL_ERROR_SIZE] = {};
};

/// Whether a failed request may succeed when it is repeated. True for network errors; false for errors of
/// certificates or the local disk.
bool is_passing(CURLcode code);

}  // namespace hearth
