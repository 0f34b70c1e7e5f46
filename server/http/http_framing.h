// What cpp-httplib does for us: it reads a request's body and frames the answer.
//
// http_framing.cpp is the only file that includes the library, and this header shows none of its types. The
// library never sees what a client wrote before the body: it is told a head of our own that says how the body
// is framed. Versions of the library judge heads differently (numbers of headers, Accept, Range,
// Content-Length beside Transfer-Encoding); clients of ours must not notice which version is installed.
// Called by HTTP worker threads.
#pragma once

#include <sys/types.h>

#include <functional>
#include <string>
#include <string_view>

#include "server/http/http_types.h"

namespace hearth {

/// How one request's body and its answer are delimited.
struct Framing {
  /// What the library reads in place of the client's head: GET, HEAD or (with a body) POST of "/", and at
  /// most the headers Content-Length, Transfer-Encoding and Expect. With the empty line.
  std::string head;
  /// An HTTP/1.0 client knows no chunks: a produced body ends with the connection.
  bool is_http10 = false;
};

/// One request and its connection, as the library's callbacks reach them. The methods are called on the
/// thread that called frame().
class FramedExchange {
 public:
  virtual ~FramedExchange() = default;
  virtual const Framing& framing() const = 0;
  /// Bytes of the request after its head. 0: the client closed; -1: an error.
  virtual ssize_t read(char* to, size_t size) = 0;
  /// Sends all of the bytes, or returns false.
  virtual bool write(std::string_view bytes) = 0;
  virtual bool client_alive() const = 0;

  /// Takes a piece of a body: its bytes and their number. False: no more is wanted, or nothing more can be sent.
  using TakePiece = std::function<bool(const char*, size_t)>;
  /// Passes the pieces of the body. Returns true if the body is complete and every piece was taken.
  using ReadBody = std::function<bool(TakePiece)>;
  /// The whole answer but its framing; read_body is empty if the request has no body. Must not throw.
  virtual HttpResponse answer(const ReadBody& read_body) = 0;
  /// Calls response.produce, whose pieces go to send. True: the body is complete. Must not throw.
  virtual bool produce(HttpResponse& response, const TakePiece& send) = 0;
};

/// Reads the body and sends the answer. False: the answer did not leave whole.
bool frame(FramedExchange& exchange);

}  // namespace hearth
