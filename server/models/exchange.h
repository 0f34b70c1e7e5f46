// Sends one request with libcurl, and reads the head of its answer. Callers follow each redirect themselves,
// so that they decide where to send a token and which addresses a download may use.
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

/// Returns scheme, host and port of a URL in lower case, always with the port: "https://huggingface.co:443".
std::string origin_of(const std::string& url);

/// Whether the token for `endpoint` may be sent to `url`: both must have the same scheme, host and port.
bool may_carry_token(const std::string& endpoint, const std::string& url);

/// Resolves `location` against `url`. Throws PullError if the result is not http or https, or leads from
/// https to http.
std::string next_url(const std::string& url, const std::string& location);

/// The head of the last answer.
struct TransferHead {
  int status = 0;
  std::string location, etag, last_modified, linked_etag, error_code, content_encoding;
  std::optional<uint64_t> content_length;
  std::optional<ByteRange> content_range;  // from Content-Range; end is exclusive
  std::optional<uint64_t> content_total;   // from Content-Range
  bool bad_range = false;                  // whether Content-Range is malformed
};

/// Reads one line of a head, including the end of the line. A status line begins a new head.
void read_head_line(std::string_view line, TransferHead& head);

/// The settings of a request.
struct RequestOptions {
  std::string token;         // empty if there is no token
  std::string endpoint;      // the only hub to which the token may be sent
  std::string certificates;  // file of trusted certificate authorities; if empty, those of the system
};

/// A libcurl handle. It is reused for successive requests, which keeps its connection open. It cannot be
/// copied or moved, because libcurl stores the address of the Exchange.
class Exchange {
 public:
  /// Receives bytes of the body, once the head has arrived. Returns false to end the request.
  using Take = std::function<bool(const TransferHead& head, std::string_view bytes)>;
  /// Called whenever bytes have arrived, and about once a second if none arrive.
  using Tick = std::function<void()>;

  Exchange();
  ~Exchange();
  Exchange(const Exchange&) = delete;
  Exchange& operator=(const Exchange&) = delete;

  /// Requests the bytes of a file from position `from` on, or the whole file without a range if `from` is 0.
  /// Blocks until the request has ended, and returns libcurl's result. Throws PullError if the URL is
  /// malformed. Passes on exceptions from `take` and `tick`, which also end the request.
  CURLcode get(const std::string& url, uint64_t from, const RequestOptions& options, const Take& take,
               const Tick& tick);

  /// The last request's head and URL.
  const TransferHead& head() const { return head_; }
  const std::string& url() const { return url_; }
  /// Returns how many seconds the server requests to wait (Retry-After, in either form), or 0 if it requests
  /// none.
  int64_t retry_after_s() const;
  /// libcurl's message for a failure, with details.
  std::string failure(CURLcode code) const;

 private:
  void prepare(uint64_t from, const RequestOptions& options);
  static size_t on_head(char* bytes, size_t size, size_t n, void* self);
  static size_t on_body(char* bytes, size_t size, size_t n, void* self) noexcept;
  static int on_progress(void* self, curl_off_t, curl_off_t, curl_off_t, curl_off_t) noexcept;

  CURL* handle_;
  std::string url_;
  TransferHead head_;
  const Take* take_ = nullptr;  // callbacks of the current request
  const Tick* tick_ = nullptr;
  std::exception_ptr thrown_;  // exception thrown by take or tick inside libcurl
  char details_[CURL_ERROR_SIZE] = {};
};

/// Whether a failed request may succeed if repeated. True for network errors, false for errors of
/// certificates or the local disk.
bool is_passing(CURLcode code);

}  // namespace hearth
