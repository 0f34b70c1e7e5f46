// Parses a request's head: the request line, the header fields, and how the body and the answer are
// delimited. Detects faulty heads.
//
// Connection has already checked the sizes, that each header line has the form "name: value", and that there
// are no control characters. Pure functions; called by HTTP worker threads.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "server/http/http_types.h"
#include "server/http/message/http_framing.h"
#include "server/http/message/request_body.h"
#include "server/json/api_error.h"

namespace hearth {

struct RequestHead {
  HttpRequest request;            // without body and remote_address
  BodyFraming body;               // empty if there is a fault
  Framing framing;                // framing of the answer
  bool expects_continue = false;  // the client waits for 100 Continue before it sends its body
  // Whether the connection closes after the answer: if the client requests it, after a fault or a chunked
  // body, and in HTTP/1.0 without keep-alive.
  bool closes = false;
  std::optional<ApiError> fault;  // set if the request is refused before its body is read
};

/// head: the request line and the header lines, each with its CRLF, and the empty line after them.
RequestHead parse_head(std::string_view head, uint64_t max_body_bytes);

/// Returns the message of an error that the HTTP server itself reports. status: 400, 408, 414, 431 or 503.
std::string transport_fault(int status);

}  // namespace hearth
