// How a handler answers one request: with a whole response, or with a body that it writes piece by piece.
//
// The transport gives a writer to the handler, which runs straight through on the request's thread: it reads
// the request, waits for whatever it needs, and writes. Only that thread uses the writer. REQUIRES: for each
// request, one send(), or one begin() followed by write() and finish().
#pragma once

#include <string_view>

#include "server/http/http_types.h"

namespace hearth {

class ResponseWriter {
 public:
  virtual ~ResponseWriter() = default;

  /// Sends a whole answer with its Content-Length. Frees the request's body first, like release_body().
  virtual void send(HttpResponse response) = 0;

  /// Sends status 200 and the headers; the body follows. Frees the request's body first, like release_body().
  /// Returns false if the client is gone.
  virtual bool begin(std::string_view content_type, HttpHeaders headers) = 0;
  /// Sends the bytes now, without buffering. Returns false if the client is gone, or if the request's method
  /// is HEAD, whose answer has no body. After a failure, later calls send nothing.
  virtual bool write(std::string_view bytes) = 0;
  /// Ends the body. If the handler returns or throws before it finishes a body that it has begun, the
  /// connection is broken, so that the client cannot mistake the part for the whole. After a failed begin()
  /// or write(), finish() does nothing: the body stays unfinished.
  virtual void finish() = 0;

  /// Frees the request's body, which the handler has read by then. Handlers call this before they wait,
  /// because hundreds of requests may wait, each with megabytes.
  virtual void release_body() = 0;

  /// Whether the client is still connected. Cheap (one poll of the socket); called several times a second
  /// while the engine works.
  virtual bool client_alive() = 0;
  /// Tells the transport what to log; sends nothing.
  virtual void report(const GenerationRecord& record) = 0;
};

}  // namespace hearth
