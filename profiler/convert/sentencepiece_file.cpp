// Reads as much of protobuf's wire format as tokenizer.model needs.
#include "profiler/convert/sentencepiece_file.h"

#include <cstring>

#include "kernels/base/file_error.h"

namespace hearth::convert {
namespace {

/// One field of a message.
struct Field {
  uint64_t number = 0;
  uint64_t value = 0;      // the value of a varint field
  std::string_view bytes;  // contents of a length-delimited field, or the 4 or 8 bytes of a fixed-size field
};

class Message {
 public:
  Message(std::string_view bytes, const std::string& label) : rest_(bytes), label_(label) {}

  bool next(Field& field) {
    if (rest_.empty()) return false;
    const uint64_t tag = varint();
    field = {.number = tag >> 3, .value = 0, .bytes = {}};
    switch (tag & 7) {
      case 0:
        field.value = varint();
        return true;
      case 1:
        field.bytes = take(8);
        return true;
      case 2:
        field.bytes = take(varint());
        return true;
      case 5:
        field.bytes = take(4);
        return true;
      default:
        fail("a field has a kind that protobuf does not have");
    }
  }

 private:
  [[noreturn]] void fail(const std::string& what) const {
    file_error::fail(label_, what + ", expected SentencePiece's message; download the file again");
  }
  uint64_t varint() {
    uint64_t value = 0;
    for (int shift = 0; shift < 64; shift += 7) {
      const uint64_t byte = static_cast<unsigned char>(take(1)[0]);
      value |= (byte & 127) << shift;
      if (byte < 128) return value;
    }
    fail("a number has more than 64 bits");
  }
  std::string_view take(uint64_t n) {
    if (n > rest_.size()) fail("it ends within a field");
    const std::string_view taken = rest_.substr(0, n);
    rest_.remove_prefix(n);
    return taken;
  }

  std::string_view rest_;
  const std::string& label_;
};

SentencePieceFile::Piece read_piece(std::string_view bytes, const std::string& label) {
  SentencePieceFile::Piece piece;
  Message message(bytes, label);
  for (Field field; message.next(field);) {
    if (field.number == 1) piece.text = field.bytes;
    if (field.number == 2 && field.bytes.size() == 4) std::memcpy(&piece.score, field.bytes.data(), 4);
    if (field.number == 3)
      piece.type = field.value >= 1 && field.value <= 6 ? static_cast<int32_t>(field.value) : 1;
  }
  return piece;
}

}  // namespace

SentencePieceFile read_sentencepiece_file(std::string_view bytes, const std::string& label) {
  SentencePieceFile file;
  Message message(bytes, label);
  for (Field field; message.next(field);) {
    if (field.number == 1) file.pieces.push_back(read_piece(field.bytes, label));
    if (field.number == 2) {  // TrainerSpec
      Message trainer(field.bytes, label);
      for (Field one; trainer.next(one);) {
        if (one.number == 3) file.unigram = one.value == 1;
      }
    }
    if (field.number == 3) {  // NormalizerSpec
      Message normalizer(field.bytes, label);
      for (Field one; normalizer.next(one);) {
        if (one.number == 2) file.character_map = one.bytes;
        if (one.number == 3) file.add_dummy_prefix = one.value != 0;
        if (one.number == 4) file.remove_extra_whitespaces = one.value != 0;
      }
    }
  }
  if (file.pieces.empty())
    file_error::fail(label, "it has no pieces, expected SentencePiece's vocabulary; download the file again");
  return file;
}

}  // namespace hearth::convert
