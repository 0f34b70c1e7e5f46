// See the header.
#include "server/http/message/inflater.h"

#include <algorithm>
#include <array>
#include <new>

namespace hearth {

Inflater::~Inflater() {
  if (begun_) ::inflateEnd(&stream_);
}

void Inflater::begin(unsigned char first_byte) {
  // zlib's window bits: 15 is the largest window; adding 16 selects gzip, and a negative value selects raw
  // deflate. In the zlib format, the low half of the first byte is 8. No encoder begins raw deflate with such
  // a byte.
  const bool is_bare = (first_byte & 0x0f) != 8;
  const int window_bits = format_ == Format::kGzip ? 15 + 16 : is_bare ? -15 : 15;
  if (::inflateInit2(&stream_, window_bits) != Z_OK) throw std::bad_alloc();
  begun_ = true;
}

Inflater::Result Inflater::take(std::string_view bytes, uint64_t max_bytes, std::string& out) {
  if (bytes.empty()) return Result::kGood;
  if (!begun_) begin(static_cast<unsigned char>(bytes.front()));
  // next_in is not a pointer to const, but zlib does not write through it.
  stream_.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
  stream_.avail_in = static_cast<uInt>(bytes.size());
  std::array<char, 16 * 1024> block;
  // When all input is read, zlib may still hold output. The loop therefore continues while the output block
  // is full.
  for (bool has_more = true; has_more || stream_.avail_in > 0;) {
    if (at_end_) {
      // More bytes follow: another gzip member, or garbage, which the next inflate() detects.
      if (stream_.avail_in == 0) return Result::kGood;
      if (format_ != Format::kGzip || ::inflateReset(&stream_) != Z_OK) return Result::kDamaged;
      at_end_ = false;
    }
    stream_.next_out = reinterpret_cast<Bytef*>(block.data());
    stream_.avail_out = static_cast<uInt>(block.size());
    const int result = ::inflate(&stream_, Z_NO_FLUSH);
    if (result == Z_MEM_ERROR) throw std::bad_alloc();
    const bool is_stuck = result == Z_BUF_ERROR;  // needs more input or output: not an error
    if (result != Z_OK && result != Z_STREAM_END && !is_stuck) return Result::kDamaged;
    const size_t n = block.size() - stream_.avail_out;
    if (n > max_bytes - std::min<uint64_t>(max_bytes, out.size())) return Result::kTooLarge;
    out.append(block.data(), n);
    at_end_ = result == Z_STREAM_END;
    has_more = stream_.avail_out == 0 && !is_stuck;
  }
  return Result::kGood;
}

}  // namespace hearth
