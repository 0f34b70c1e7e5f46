// Parses a request's head: request line, header fields, how body and answer are delimited, and errors.
//
// Connection has already checked the bytes: their sizes, that every header line is "name: value", and that
// there are no control characters. Pure functions; called by HTTP worker threads.
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
  Framing framing;                // of the answer
  bool expects_continue = false;  // the client waits for 100 Continue before it sends its body
  bool closes = false;  // the client wants the connection closed after the answer, or cannot keep it open
  std::optional<ApiError> fault;  // the answer, if the request is refused before its body is read
};

/// head: the request line and the header lines, each ended by CRLF, including the empty line.
RequestHead parse_head(std::string_view head, uint64_t max_body_bytes);

/// Returns the error message for an answer that the transport itself makes. status: 400, 408, 414, 431 or
/// 503.
std::string transport_fault(int status);

}  // namespace hearth
