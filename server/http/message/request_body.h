// Reads a request's body from its connection: joins chunks, decompresses them, and enforces limits.
//
// Refuses everything that HTTP implementations interpret differently. If a proxy saw a different end of the
// body than this server, an attacker could smuggle requests past the proxy. Called by HTTP worker threads.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "server/json/api_error.h"

namespace hearth {

enum class ContentCoding { kIdentity, kGzip, kDeflate };

/// The delimitation and compression of a body, as stated in the request's head.
struct BodyFraming {
  bool is_chunked = false;
  uint64_t length = 0;  // valid if not chunked; within the limit
  ContentCoding coding = ContentCoding::kIdentity;
  bool is_empty() const { return !is_chunked && length == 0; }
};

/// Reads up to `size` bytes that follow the request's head. Returns 0 if the client closed the connection, -1
/// on an error.
using ReadBytes = std::function<ssize_t(char* to, size_t size)>;

/// Appends the body to `body`, which must be empty. Neither the bytes received (without chunk lines) nor the
/// body may exceed max_bytes. Returns nullopt on success. Otherwise returns the error for the client: 400 if
/// the body ends early, is badly chunked or is damaged; 413 as soon as the body is known to be too large.
/// After an error, the position of the next request is unknown.
std::optional<ApiError> receive_body(const BodyFraming& framing, uint64_t max_bytes, const ReadBytes& read,
                                     std::string& body);

/// Returns the 413 error for a body that is larger than the limit.
ApiError body_too_large(uint64_t max_body_bytes);

}  // namespace hearth
