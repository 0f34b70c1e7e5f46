// Writes the framing of answers: status line, headers, and how the body is delimited.
//
// cpp-httplib writes the status line and the headers of answers, and whole bodies. Only http_framing.cpp
// includes this library. It never sees the client's request. Instead, it gets a fixed request without
// headers: HEAD if the client sent HEAD, otherwise GET. The reason is that versions of the library treat
// requests differently (number of headers, Accept, Range, trailers of chunked bodies), and clients must not
// notice which version is installed. Called by HTTP worker threads.
#pragma once

#include <functional>
#include <string_view>

#include "server/http/http_types.h"

namespace hearth {

/// Determines how an answer is delimited.
struct Framing {
  bool is_head = false;  // answer to HEAD, which has no body
  /// HTTP/1.0 has no chunked coding, so a body without a length ends with the connection.
  bool is_http10 = false;
};

/// Sends all bytes. Returns false on failure.
using SendBytes = std::function<bool(std::string_view)>;

/// Sends the response with its length. Returns false if not all of it was sent.
bool send_whole(const HttpResponse& response, Framing framing, const SendBytes& send);

/// Sends the head of a response whose body has no known length. The body follows, in chunks unless the client
/// uses HTTP/1.0. Returns false if not all of the head was sent.
bool send_head(const HttpResponse& head, Framing framing, const SendBytes& send);

}  // namespace hearth
