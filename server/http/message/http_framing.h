// What cpp-httplib does for us: it frames an answer.
//
// http_framing.cpp is the only file that includes the library, and this header shows none of its types. The
// library never sees what a client wrote: it is told a head of our own, GET or HEAD without any header. Versions of
// the library judge requests differently (numbers of headers, Accept, Range, trailers of chunked bodies); clients of
// ours must not notice which version is installed. Called by HTTP worker threads.
#pragma once

#include <functional>
#include <string_view>

#include "server/http/http_types.h"

namespace hearth {

/// How an answer is delimited.
struct Framing {
  bool is_head = false;  // the answer to HEAD: no body
  /// An HTTP/1.0 client knows no chunks: a produced body ends with the connection.
  bool is_http10 = false;
};

/// One request and its connection, as the library's callbacks reach them. The methods are called on the
/// thread that called frame().
class FramedExchange {
 public:
  virtual ~FramedExchange() = default;
  virtual const Framing& framing() const = 0;
  /// Sends all of the bytes, or returns false.
  virtual bool write(std::string_view bytes) = 0;
  virtual bool client_alive() const = 0;

  /// Takes a piece of a body: its bytes and their number. False: no more is wanted, or nothing more can be sent.
  using TakePiece = std::function<bool(const char*, size_t)>;
  /// Reads the request's body and makes the whole answer but its framing. Must not throw.
  virtual HttpResponse answer() = 0;
  /// Calls response.produce, whose pieces go to send. True: the body is complete. Must not throw.
  virtual bool produce(HttpResponse& response, const TakePiece& send) = 0;
};

/// Makes the answer and sends it. False: the answer did not leave whole.
bool frame(FramedExchange& exchange);

}  // namespace hearth
