// Undoes gzip and deflate, the compressions a request's body may have, piece by piece and within a limit.
//
// zlib does the work. A few KiB can inflate to gigabytes, so the output is bounded while it is made. One Inflater for
// one body, on the HTTP worker's thread. Its memory is about 40 KiB besides the output.
#pragma once

#include <zlib.h>

#include <cstdint>
#include <string>
#include <string_view>

namespace hearth {

class Inflater {
 public:
  enum class Format {
    kGzip,    // RFC 1952; several members in a row are one body
    kDeflate  // zlib's format (RFC 1950), as HTTP means by the name; also bare deflate, which some clients send
  };
  enum class Result { kGood, kDamaged, kTooLarge };

  explicit Inflater(Format format) : format_(format) {}
  ~Inflater();
  Inflater(const Inflater&) = delete;
  Inflater& operator=(const Inflater&) = delete;

  /// Appends what these bytes inflate to. kTooLarge: `out` would have more than max_bytes; it stays within them. Do
  /// not call again after a result other than kGood. Throws std::bad_alloc.
  Result take(std::string_view bytes, uint64_t max_bytes, std::string& out);
  /// Was the last byte taken the end of the compressed data?
  bool at_end() const { return at_end_; }

 private:
  void begin(unsigned char first_byte);

  const Format format_;
  z_stream stream_{};
  bool begun_ = false, at_end_ = false;
};

}  // namespace hearth
