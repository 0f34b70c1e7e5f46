// A request's body from the bytes of its connection: chunks put together, compression undone, everything bounded.
//
// Strict where programs differ: a proxy in front that finds another end of the body than we do would let requests be
// smuggled past it. Called by HTTP worker threads.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "server/json/api_error.h"

namespace hearth {

enum class ContentCoding { kIdentity, kGzip, kDeflate };

/// How a body is delimited and coded, as its request's head says.
struct BodyFraming {
  bool is_chunked = false;
  uint64_t length = 0;  // if not chunked; within the limit
  ContentCoding coding = ContentCoding::kIdentity;
  bool is_empty() const { return !is_chunked && length == 0; }
};

/// Reads up to size bytes of what follows the head. 0: the client closed; -1: an error.
using ReadBytes = std::function<ssize_t(char* to, size_t size)>;

/// Appends the body to `body`, which is empty. Neither the bytes on the wire (without chunk lines) nor the body may be
/// more than max_bytes. Returns the refusal: 400 if the body ends early, is badly chunked or damaged; 413 as soon as it
/// is known to be too large. After a refusal it is not known where the next request begins.
std::optional<ApiError> receive_body(const BodyFraming& framing, uint64_t max_bytes, const ReadBytes& read,
                                     std::string& body);

/// The 413 for a body larger than the limit.
ApiError body_too_large(uint64_t max_body_bytes);

}  // namespace hearth
