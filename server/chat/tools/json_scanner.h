// Finds the end of a JSON value byte by byte, without building the value. The text comes from a model, so it
// arrives in pieces and may be invalid JSON.
//
// Used to read tool calls. One JsonScanner scans one value, on one thread.
#pragma once

#include <bitset>
#include <cstddef>
#include <cstdint>

namespace hearth {

class JsonScanner {
 public:
  enum class Status {
    kMore,        // the byte belongs to the value, which is not complete yet
    kDone,        // this byte completes the value
    kDoneBefore,  // the value is a number; it ended before this byte
    kBad,         // this is not a JSON value, or it is nested deeper than kMaxDepth
  };
  static constexpr size_t kMaxDepth = 256;

  /// Reads the next byte. White space before the value belongs to the value. Must not be called again after
  /// it has returned a status other than kMore. Does not check UTF-8.
  Status push(char c);

 private:
  enum class State : uint8_t {
    kValue,         // a value must follow
    kFirstElement,  // a value or ]
    kFirstKey,      // a key or }
    kKey,           // a key
    kColon,
    kAfterValue,  // expects a comma or the end of the container
    kString,
    kEscape,
    kHex,
    kWord,  // true, false, null
    kMinus,
    kZero,
    kDigits,
    kPoint,
    kFraction,
    kExponent,
    kExponentSign,
    kExponentDigits,
  };

  Status begin_value(char c);
  Status open(bool object);
  Status close(bool object);
  Status end_value();
  Status after_value(char c);
  Status string_byte(char c);
  Status number_byte(char c);
  Status number_end(char c);
  Status word_byte(char c);

  State state_ = State::kValue;
  size_t depth_ = 0;
  std::bitset<kMaxDepth> is_object_;
  bool in_key_ = false;
  int n_hex_ = 0;
  const char* word_ = nullptr;  // letters of the word that have not arrived yet
};

}  // namespace hearth
