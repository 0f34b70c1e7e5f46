// One request with libcurl, and the head of its answer. Callers follow redirects themselves, hop by hop, so
// that they decide where a token is sent and where a download may lead.
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

/// Scheme, host and port of a URL, in lower case, always with the port: "https://huggingface.co:443".
std::string origin_of(const std::string& url);

/// Whether the token for `endpoint` may be sent to `url`: only to the endpoint's scheme, host and port.
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
  bool bad_range = false;                  // Content-Range is malformed
};

/// Reads one line of a head, including its end of line. A status line begins a new head.
void read_head_line(std::string_view line, TransferHead& head);

/// The settings of a request.
struct RequestOptions {
  std::string token;         // empty: none
  std::string endpoint;      // where the token may be sent
  std::string certificates;  // file of trusted certificate authorities; empty: the system's
};

/// A libcurl handle, reused for successive requests to keep its connection. libcurl holds its address, so it
/// cannot be copied or moved.
class Exchange {
 public:
  /// Takes bytes of the body, after the head. Returns false to end the request.
  using Take = std::function<bool(const TransferHead& head, std::string_view bytes)>;
  /// Called whenever bytes have arrived, and about once a second while none do.
  using Tick = std::function<void()>;

  Exchange();
  ~Exchange();
  Exchange(const Exchange&) = delete;
  Exchange& operator=(const Exchange&) = delete;

  /// Gets the bytes of a file from `from` on; if `from` is 0, asks for the whole file without a range. Blocks
  /// until the request has ended, and returns libcurl's result. Throws PullError if the URL is malformed, and
  /// whatever `take` or `tick` throw; an exception ends the request.
  CURLcode get(const std::string& url, uint64_t from, const RequestOptions& options, const Take& take,
               const Tick& tick);

  /// The last request's head and URL.
  const TransferHead& head() const { return head_; }
  const std::string& url() const { return url_; }
  /// Seconds that the server asks to wait (Retry-After, in either form); 0: none.
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
  const Take* take_ = nullptr;  // of the running request
  const Tick* tick_ = nullptr;
  std::exception_ptr thrown_;  // exception of take or tick, which run inside of libcurl
  char details_[CURL_ERROR_SIZE] = {};
};

/// Whether a failed request may succeed on retry: network errors, but not certificate or local disk errors.
bool is_passing(CURLcode code);

}  // namespace hearth
