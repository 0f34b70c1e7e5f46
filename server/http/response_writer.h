// The interface through which a handler answers one request: with a whole response, or with a body that is
// sent in pieces.
//
// A handler runs on the request's thread: it reads the request, waits for its results, and writes. Only this
// thread uses the writer. REQUIRES: for each request, one send(), or one begin() followed by write() and
// finish().
#pragma once

#include <string_view>

#include "server/http/http_types.h"

namespace hearth {

class ResponseWriter {
 public:
  virtual ~ResponseWriter() = default;

  /// Sends a whole response with its Content-Length. First frees the request's body, like release_body().
  virtual void send(HttpResponse response) = 0;

  /// Sends status 200 and the headers of a response whose body follows. First frees the request's body, like
  /// release_body(). Returns false if the client has disconnected.
  virtual bool begin(std::string_view content_type, HttpHeaders headers) = 0;
  /// Sends the bytes immediately. Returns false if the client has disconnected, or if the request's method is
  /// HEAD, because its answer has no body. After a failure, later calls send nothing.
  virtual bool write(std::string_view bytes) = 0;
  /// Ends the body. If the handler returns or throws without ending a body that has begun, the connection is
  /// broken, so that the client does not take the body for complete. Does nothing after a failed begin() or
  /// write().
  virtual void finish() = 0;

  /// Frees the request's body. Handlers call this when they have read the body and before they wait, because
  /// hundreds of requests may wait, and each body may have megabytes.
  virtual void release_body() = 0;

  /// Whether the client is still connected. Costs one poll of the socket; called several times a second while
  /// the engine works.
  virtual bool client_alive() = 0;
  /// Records the data for the access log. Sends nothing.
  virtual void report(const GenerationRecord& record) = 0;
};

}  // namespace hearth
