// Receives any bytes as a request's body, whole or in chunks, compressed or not. The body must be received
// within the limit, or refused with 400 or 413. The first byte chooses the framing and coding, the second the
// size of the pieces in which it arrives.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>

#include "server/http/message/request_body.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace hearth;
  constexpr uint64_t kLimit = 4096;
  if (size < 2) return 0;
  const size_t piece = size_t{data[1]} + 1;
  BodyFraming framing;
  framing.is_chunked = (data[0] & 1) != 0;
  framing.coding = static_cast<ContentCoding>((data[0] >> 1) % 3);
  framing.length = framing.is_chunked ? 0 : size - 2;
  const uint8_t* next = data + 2;
  const uint8_t* const end = data + size;
  const ReadBytes read = [&](char* to, size_t wanted) {
    const size_t n = std::min({wanted, piece, static_cast<size_t>(end - next)});
    std::memcpy(to, next, n);
    next += n;
    return static_cast<ssize_t>(n);
  };
  std::string body;
  const std::optional<ApiError> error = receive_body(framing, kLimit, read, body);
  if (body.size() > kLimit || (error && error->status != 400 && error->status != 413)) std::abort();
  return 0;
}
