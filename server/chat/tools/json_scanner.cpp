// Implements RFC 8259 as a pushdown automaton. The stack has one bit per level, which tells objects from
// arrays.
#include "server/chat/tools/json_scanner.h"

namespace hearth {
namespace {

bool is_white(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }
bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_hex(char c) { return is_digit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F'); }

}  // namespace

JsonScanner::Status JsonScanner::push(char c) {
  switch (state_) {
    case State::kString:
    case State::kEscape:
    case State::kHex:
      return string_byte(c);
    case State::kWord:
      return word_byte(c);
    case State::kMinus:
    case State::kZero:
    case State::kDigits:
    case State::kPoint:
    case State::kFraction:
    case State::kExponent:
    case State::kExponentSign:
    case State::kExponentDigits:
      return number_byte(c);
    default:
      break;
  }
  if (is_white(c)) return Status::kMore;
  switch (state_) {
    case State::kFirstElement:
      return c == ']' ? close(false) : begin_value(c);
    case State::kFirstKey:
    case State::kKey:
      if (c == '}' && state_ == State::kFirstKey) return close(true);
      if (c != '"') return Status::kBad;
      in_key_ = true;
      state_ = State::kString;
      return Status::kMore;
    case State::kColon:
      state_ = State::kValue;
      return c == ':' ? Status::kMore : Status::kBad;
    case State::kAfterValue:
      return after_value(c);
    default:
      return begin_value(c);
  }
}

JsonScanner::Status JsonScanner::begin_value(char c) {
  if (c == '{' || c == '[') return open(c == '{');
  if (c == '"') {
    state_ = State::kString;
  } else if (c == '-') {
    state_ = State::kMinus;
  } else if (is_digit(c)) {
    state_ = c == '0' ? State::kZero : State::kDigits;
  } else if (c == 't' || c == 'f' || c == 'n') {
    state_ = State::kWord;
    word_ = c == 't' ? "rue" : c == 'f' ? "alse" : "ull";
  } else {
    return Status::kBad;
  }
  return Status::kMore;
}

JsonScanner::Status JsonScanner::open(bool object) {
  if (depth_ == kMaxDepth) return Status::kBad;
  is_object_[depth_++] = object;
  state_ = object ? State::kFirstKey : State::kFirstElement;
  return Status::kMore;
}

JsonScanner::Status JsonScanner::close(bool object) {
  if (is_object_[depth_ - 1] != object) return Status::kBad;
  --depth_;
  return end_value();
}

JsonScanner::Status JsonScanner::end_value() {
  state_ = State::kAfterValue;
  return depth_ == 0 ? Status::kDone : Status::kMore;
}

JsonScanner::Status JsonScanner::after_value(char c) {
  if (c == '}' || c == ']') return close(c == '}');
  if (c != ',') return Status::kBad;
  state_ = is_object_[depth_ - 1] ? State::kKey : State::kValue;
  return Status::kMore;
}

JsonScanner::Status JsonScanner::string_byte(char c) {
  if (state_ == State::kHex) {
    if (--n_hex_ == 0) state_ = State::kString;
    return is_hex(c) ? Status::kMore : Status::kBad;
  }
  if (state_ == State::kEscape) {
    state_ = c == 'u' ? State::kHex : State::kString;
    n_hex_ = 4;
    for (const char allowed : {'"', '\\', '/', 'b', 'f', 'n', 'r', 't', 'u'})
      if (c == allowed) return Status::kMore;
    return Status::kBad;
  }
  if (c == '\\') {
    state_ = State::kEscape;
    return Status::kMore;
  }
  if (static_cast<unsigned char>(c) < 0x20) return Status::kBad;
  if (c != '"') return Status::kMore;
  if (!in_key_) return end_value();
  in_key_ = false;
  state_ = State::kColon;
  return Status::kMore;
}

JsonScanner::Status JsonScanner::word_byte(char c) {
  if (c != *word_) return Status::kBad;
  return *++word_ == '\0' ? end_value() : Status::kMore;
}

JsonScanner::Status JsonScanner::number_byte(char c) {
  const bool digit = is_digit(c);
  const bool whole = state_ == State::kZero || state_ == State::kDigits;
  if (state_ == State::kMinus && digit) {
    state_ = c == '0' ? State::kZero : State::kDigits;
  } else if (whole && c == '.') {
    state_ = State::kPoint;
  } else if (state_ == State::kPoint && digit) {
    state_ = State::kFraction;
  } else if ((whole || state_ == State::kFraction) && (c == 'e' || c == 'E')) {
    state_ = State::kExponent;
  } else if (state_ == State::kExponent && (c == '+' || c == '-')) {
    state_ = State::kExponentSign;
  } else if ((state_ == State::kExponent || state_ == State::kExponentSign) && digit) {
    state_ = State::kExponentDigits;
  } else if (!digit || state_ == State::kZero) {
    return number_end(c);
  }
  return Status::kMore;
}

/// Handles the first byte after a number. The number is complete or invalid.
JsonScanner::Status JsonScanner::number_end(char c) {
  const bool complete = state_ == State::kZero || state_ == State::kDigits || state_ == State::kFraction ||
                        state_ == State::kExponentDigits;
  if (!complete) return Status::kBad;
  if (depth_ == 0) return Status::kDoneBefore;
  state_ = State::kAfterValue;
  return is_white(c) ? Status::kMore : after_value(c);
}

}  // namespace hearth
