// From the tokens of one sequence to the text a client may see: whole characters, nothing of a stop string,
// nothing lost.
//
// One per generated sequence, used by the HTTP thread that answers the request. Tokens come out with the text
// they made, so that log-probabilities sent beside a piece of text are those of its tokens.
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <vector>

#include "engine/serving/request.h"
#include "engine/tokenizer/tokenizer.h"
#include "server/api/stop_matcher.h"

namespace hearth {

/// Unicode characters (code points) in well-formed UTF-8: the unit of OpenAI's text_offset.
int64_t count_characters(std::string_view utf8);

/// A token and where its text begins, in characters from the start of the generated text.
struct PlacedToken {
  TokenEvent event;
  int64_t offset = 0;
};

struct TextPiece {
  std::string text;                 // may be empty
  std::vector<PlacedToken> tokens;  // those whose text has been released by now; empty unless keep_tokens
};

class TextStream {
 public:
  /// at_start: as for Detokenizer. stop: strings that end the text, none empty. keep_tokens: give tokens back
  /// with the text. The tokenizer must outlive this.
  TextStream(const Tokenizer& tokenizer, bool at_start, std::vector<std::string> stop, bool keep_tokens);

  /// What this token releases. Once stopped() is true all has been released: tokens that begin after the
  /// text's end are dropped, one that spans it is kept. REQUIRES: !stopped().
  TextPiece push(TokenEvent event);
  /// The end of the sequence: all that was held back. An incomplete character becomes U+FFFD. Empty after a
  /// stop.
  TextPiece finish();

  bool stopped() const { return matcher_.stopped(); }
  int n_tokens() const { return n_tokens_; }  // taken so far, the one that completed a stop string included
  double sum_logprob() const { return sum_logprob_; }  // of those tokens

 private:
  struct HeldToken {
    PlacedToken token;
    int64_t end = 0;  // characters that were decoded once it was taken
  };

  TextPiece release(std::string text, bool all);

  const Tokenizer* tokenizer_;
  Detokenizer detokenizer_;
  StopMatcher matcher_;
  bool keep_tokens_;
  int n_tokens_ = 0;
  double sum_logprob_ = 0;
  int64_t n_decoded_ = 0;   // characters
  int64_t n_released_ = 0;  // characters
  std::deque<HeldToken> held_;
};

}  // namespace hearth
