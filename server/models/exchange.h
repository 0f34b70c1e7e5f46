// One request over libcurl, and what its answer's head says. Redirects are not followed by the library but by the callers,
// hop by hop, so that it is decided here where a token goes and where a download may lead.
#pragma once

#include <curl/curl.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "server/models/byte_ranges.h"

namespace hearth {

/// Scheme, host and port of a URL, in lower case, with the port always told: "https://huggingface.co:443".
std::string origin_of(const std::string& url);

/// Whether the token for `endpoint` may be sent to `url`: only to the endpoint's own scheme, host and port.
bool may_carry_token(const std::string& endpoint, const std::string& url);

/// The URL that `location` means, seen from `url`. Throws PullError if it is none of http or https, or leads from https to
/// http.
std::string next_url(const std::string& url, const std::string& location);

/// The head of the last answer.
struct TransferHead {
  int status = 0;
  std::string location, etag, last_modified, linked_etag, error_code, content_encoding;
  std::optional<uint64_t> content_length;
  std::optional<ByteRange> content_range;  // of Content-Range; end is exclusive
  std::optional<uint64_t> content_total;   // of Content-Range
  bool bad_range = false;                  // there is a Content-Range that cannot be read
};

/// Takes one line of a head, its end of line included. A status line begins a new head.
void read_head_line(std::string_view line, TransferHead& head);

/// What a request is made with.
struct RequestOptions {
  std::string token;         // empty: none
  std::string endpoint;      // where the token may go
  std::string certificates;  // file of the authorities that are trusted; empty: the system's
};

/// A handle of libcurl, used for one request after another so that its connection is kept. The address of an Exchange is
/// known to the library: it is neither copied nor moved.
class Exchange {
 public:
  /// Takes bytes of the body, with the head known; false ends the request.
  using Take = std::function<bool(const TransferHead& head, std::string_view bytes)>;

  Exchange();
  ~Exchange();
  Exchange(const Exchange&) = delete;
  Exchange& operator=(const Exchange&) = delete;

  /// Sets up a GET for the bytes of `range` (all if none is given). The caller adds handle() to a multi handle.
  void prepare(const std::string& url, const std::optional<ByteRange>& range, const RequestOptions& options,
               Take take);

  CURL* handle() const { return handle_; }
  const TransferHead& head() const { return head_; }
  const std::string& url() const { return url_; }
  /// Seconds that the server asks to wait (Retry-After, in either form); 0: it asks for none.
  int64_t retry_after_s() const;
  /// The library's words for a failure, with details.
  std::string failure(CURLcode code) const;

 private:
  static size_t on_head(char* bytes, size_t size, size_t n, void* self);
  static size_t on_body(char* bytes, size_t size, size_t n, void* self);

  CURL* handle_;
  curl_slist* lines_ = nullptr;
  std::string url_;
  TransferHead head_;
  Take take_;
  char details_[CURL_ERROR_SIZE] = {};
};

/// Whether a failed request may succeed if it is made again: the network, not the certificate or our own disk.
bool is_passing(CURLcode code);

}  // namespace hearth
