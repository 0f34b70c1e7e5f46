// Frames answers: status line, headers, and how the body is delimited.
//
// cpp-httplib writes heads and whole bodies; http_framing.cpp is the only file that includes it, and this
// header shows none of its types. The library never sees a client's bytes: it gets a fixed head, GET or HEAD
// without headers. Library versions treat requests differently (number of headers, Accept, Range, trailers of
// chunked bodies), and clients must not notice which version is installed. Called by HTTP worker threads.
#pragma once

#include <functional>
#include <string_view>

#include "server/http/http_types.h"

namespace hearth {

/// How an answer is delimited.
struct Framing {
  bool is_head = false;  // the answer to HEAD: no body
  /// HTTP/1.0 has no chunked coding: closing the connection ends a body without a length.
  bool is_http10 = false;
};

/// Sends all bytes, or returns false.
using SendBytes = std::function<bool(std::string_view)>;

/// Sends the response with its length. Returns false if it was not sent whole.
bool send_whole(const HttpResponse& response, Framing framing, const SendBytes& send);

/// Sends the head of a response whose body has no known length yet. The body then follows in chunks or, over
/// HTTP/1.0, without chunks. Returns false if the head was not sent whole.
bool send_head(const HttpResponse& head, Framing framing, const SendBytes& send);

}  // namespace hearth
