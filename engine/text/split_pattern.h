// One regular expression of a pre-tokenizer, compiled once, that splits pieces of text. Wraps PCRE2.
//
// Built at load; const and thread-safe afterward.
#pragma once

#include <cstddef>
#include <memory>
#include <string_view>
#include <vector>

namespace hearth {

/// A part of a text, in bytes.
struct Piece {
  size_t begin = 0;
  size_t length = 0;
};

class SplitPattern {
 public:
  /// pattern: an expression as in tokenizer.json, in which \s and \S mean Unicode's White_Space. It is
  /// compiled for UTF-8 text with Unicode properties, and just-in-time compiled if PCRE2 can do that. Throws
  /// std::logic_error if it does not compile.
  explicit SplitPattern(std::string_view pattern);
  SplitPattern(SplitPattern&&) noexcept;
  SplitPattern& operator=(SplitPattern&&) noexcept;
  ~SplitPattern();

  /// Splits each piece so that every match, and every stretch between matches, is a separate piece
  /// ("isolated" in tokenizer.json), and appends the results to out. Each piece is matched as if it were the
  /// whole text, so lookahead does not see the pieces next to it. REQUIRES: each piece of text is well-formed
  /// UTF-8.
  void split(std::string_view text, const std::vector<Piece>& pieces, std::vector<Piece>& out) const;

 private:
  struct Compiled;
  std::unique_ptr<Compiled> compiled_;
};

}  // namespace hearth
