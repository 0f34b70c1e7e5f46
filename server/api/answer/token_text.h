// Converts the tokens of one sequence to the text that a client may see: whole characters, no part of a stop
// string, nothing lost.
//
// Used by the HTTP thread that answers the request. Tokens are returned together with the text that they
// made, so that a piece of text is sent with the log-probabilities of its own tokens.
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <vector>

#include "engine/serving/request.h"
#include "engine/tokenizer/tokenizer.h"

namespace hearth {

/// Finds stop strings in text that arrives in pieces, and holds back text that may be the beginning of one.
/// The result does not depend on where the pieces were cut: the text ends at the first character that
/// completes a stop string; if that character completes several, the longest one counts. One per generated
/// sequence.
class StopMatcher {
 public:
  /// stops: whole UTF-8 strings, none of them empty.
  explicit StopMatcher(std::vector<std::string> stops);

  /// Takes the next piece and returns the text that cannot belong to a stop string anymore. The piece and the
  /// result consist of whole UTF-8 characters. When a stop string is complete, returns the text before it,
  /// and stopped() becomes true. REQUIRES: !stopped().
  std::string push(std::string_view text);
  /// Call when the text has ended. Returns the text held back, because no stop string can be completed now.
  std::string finish();
  bool stopped() const { return stopped_; }
  /// The stop string that was found; empty until stopped().
  const std::string& stop_string() const { return stop_string_; }

 private:
  size_t held_length() const;

  std::vector<std::string> stops_;
  std::string held_;  // a suffix of the text so far that is a proper prefix of a stop string
  bool stopped_ = false;
  std::string stop_string_;
};

/// Number of code points in well-formed UTF-8; OpenAI's text_offset counts in this unit.
int64_t count_characters(std::string_view utf8);

/// A token and the position of its text, in characters from the start of the generated text.
struct PlacedToken {
  TokenEvent event;
  int64_t offset = 0;
};

struct TextPiece {
  std::string text;                 // may be empty
  std::vector<PlacedToken> tokens;  // tokens whose text has been released; empty unless keep_tokens
};

/// Turns the tokens of one sequence into pieces of visible text. One per generated sequence.
class TextStream {
 public:
  /// at_start, shown: passed on to the Detokenizer. stop: strings that end the text, none of them empty.
  /// keep_tokens: true returns each piece together with its tokens. The tokenizer must outlive this object.
  TextStream(const Tokenizer& tokenizer, bool at_start, std::vector<std::string> stop, bool keep_tokens,
             std::vector<int32_t> shown = {});

  /// Takes the next token and returns the text that can be shown now. If the token makes stopped() true, this
  /// is the last piece: it includes the held tokens that begin before the end of the text, and the other held
  /// tokens are dropped. REQUIRES: !stopped().
  TextPiece push(TokenEvent event);
  /// Call when the sequence has ended. Returns everything held back; an incomplete character becomes U+FFFD.
  /// Empty after a stop.
  TextPiece finish();

  bool stopped() const { return matcher_.stopped(); }
  const std::string& stop_string() const { return matcher_.stop_string(); }  // empty: none found
  /// n_tokens(): number of tokens taken so far, including the token that completed a stop string.
  /// sum_logprob(): sum of their log-probabilities.
  int n_tokens() const { return n_tokens_; }
  double sum_logprob() const { return sum_logprob_; }

 private:
  struct HeldToken {
    PlacedToken token;
    int64_t end = 0;  // characters decoded up to and including this token
  };

  /// Makes a piece of this text and the tokens that belong to it; if `all`, adds all remaining tokens.
  TextPiece release(std::string text, bool all);

  const Tokenizer* tokenizer_;
  Detokenizer detokenizer_;
  StopMatcher matcher_;
  bool keep_tokens_;
  int n_tokens_ = 0;
  double sum_logprob_ = 0;
  int64_t n_decoded_ = 0;   // characters produced by the detokenizer
  int64_t n_released_ = 0;  // characters returned in pieces
  std::deque<HeldToken> held_;
};

}  // namespace hearth
