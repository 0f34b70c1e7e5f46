// Uses cpp-httplib to frame an answer.
//
// http_framing.cpp is the only file that includes the library, and this header shows none of its types. The
// library never sees a client's bytes: it gets a fixed head, GET or HEAD without headers. Library versions
// judge requests differently (number of headers, Accept, Range, trailers of chunked bodies), and clients must
// not notice which version is installed. Called by HTTP worker threads.
#pragma once

#include <functional>
#include <string_view>

#include "server/http/http_types.h"

namespace hearth {

/// How an answer is delimited.
struct Framing {
  bool is_head = false;  // the answer to HEAD: no body
  /// HTTP/1.0 has no chunked coding: closing the connection ends a produced body.
  bool is_http10 = false;
};

/// One request and its connection, for the library's callbacks. Its methods run on the thread that called
/// frame().
class FramedExchange {
 public:
  virtual ~FramedExchange() = default;
  virtual const Framing& framing() const = 0;
  /// Sends all bytes, or returns false.
  virtual bool write(std::string_view bytes) = 0;
  virtual bool client_alive() const = 0;

  /// Takes a piece of a body (bytes, count). Returns false if it wants no more or can send no more.
  using TakePiece = std::function<bool(const char*, size_t)>;
  /// Reads the request's body and makes the whole answer except its framing. Must not throw.
  virtual HttpResponse answer() = 0;
  /// Calls response.produce and passes its pieces to `send`. Returns true if the body is complete. Must not
  /// throw.
  virtual bool produce(HttpResponse& response, const TakePiece& send) = 0;
};

/// Makes the answer and sends it. Returns false if it was not sent whole.
bool frame(FramedExchange& exchange);

}  // namespace hearth
