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
  /// pattern: as in tokenizer.json, with \s and \S meaning Unicode's White_Space; compiled for UTF with
  /// Unicode properties, just-in-time where PCRE2 can. Throws std::logic_error if it does not compile.
  explicit SplitPattern(std::string_view pattern);
  SplitPattern(SplitPattern&&) noexcept;
  SplitPattern& operator=(SplitPattern&&) noexcept;
  ~SplitPattern();

  /// Splits each piece so that every match, and every stretch between matches, is a separate piece
  /// ("isolated" in tokenizer.json), and appends the results to out. A piece is matched as if it stood alone:
  /// lookahead does not see its neighbors. REQUIRES: each piece of text is well-formed UTF-8.
  void split(std::string_view text, const std::vector<Piece>& pieces, std::vector<Piece>& out) const;

 private:
  struct Compiled;
  std::unique_ptr<Compiled> compiled_;
};

}  // namespace hearth
