// Decompresses gzip and deflate request bodies piece by piece, up to a limit.
//
// Uses zlib. A few KiB can decompress to gigabytes, so the output is limited while it is produced. One
// Inflater serves one body, on an HTTP worker thread, and uses about 40 KiB in addition to the output.
#pragma once

#include <zlib.h>

#include <cstdint>
#include <string>
#include <string_view>

namespace hearth {

class Inflater {
 public:
  enum class Format {
    kGzip,    // RFC 1952; consecutive members form one body
    kDeflate  // zlib format (RFC 1950), HTTP's "deflate"; also raw deflate, which some clients send
  };
  enum class Result { kGood, kDamaged, kTooLarge };

  explicit Inflater(Format format) : format_(format) {}
  ~Inflater();
  Inflater(const Inflater&) = delete;
  Inflater& operator=(const Inflater&) = delete;

  /// Appends the decompressed bytes to `out`. Returns kTooLarge if `out` would exceed max_bytes. Must not be
  /// called again after a result other than kGood. Throws std::bad_alloc.
  Result take(std::string_view bytes, uint64_t max_bytes, std::string& out);
  /// Returns true if the bytes so far end exactly at the end of the compressed data.
  bool at_end() const { return at_end_; }

 private:
  void begin(unsigned char first_byte);

  const Format format_;
  z_stream stream_{};
  bool begun_ = false, at_end_ = false;
};

}  // namespace hearth
