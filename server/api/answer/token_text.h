// Converts the tokens of one sequence to text for the client. The text consists of whole characters and
// contains no stop string.
//
// Used by the HTTP thread that answers the request. Tokens are returned together with their text, so that a
// piece of text is sent with the log-probabilities of its own tokens.
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <vector>

#include "engine/serving/request.h"
#include "engine/tokenizer/tokenizer.h"

namespace hearth {

/// Searches for stop strings in text that arrives in pieces. Holds back text that may be the beginning of a
/// stop string. The result does not depend on how the text is divided into pieces: the text ends at the first
/// character that completes a stop string; if this character completes several stop strings, the longest is
/// used. Each generated sequence has one StopMatcher.
class StopMatcher {
 public:
  /// stops: whole UTF-8 strings; none is empty.
  explicit StopMatcher(std::vector<std::string> stops);

  /// Adds a piece and returns the text that cannot belong to a stop string. The piece and the result consist
  /// of whole UTF-8 characters. If a stop string is complete, returns the text before the stop string, and
  /// stopped() becomes true. REQUIRES: !stopped().
  std::string push(std::string_view text);
  /// Call when the text has ended. Returns the text that push() has held back: without more text, it cannot
  /// become a stop string.
  std::string finish();
  bool stopped() const { return stopped_; }
  /// Returns the stop string that was found, or an empty string.
  const std::string& stop_string() const { return stop_string_; }

 private:
  size_t held_length() const;

  std::vector<std::string> stops_;
  std::string held_;  // a suffix of the text so far that is a proper prefix of a stop string
  bool stopped_ = false;
  std::string stop_string_;
};

/// Returns the number of code points in valid UTF-8. OpenAI's text_offset counts code points.
int64_t count_characters(std::string_view utf8);

/// A token and the position of its text, in characters from the start of the generated text.
struct PlacedToken {
  TokenEvent event;
  int64_t offset = 0;
};

struct TextPiece {
  std::string text;                 // may be empty
  std::vector<PlacedToken> tokens;  // with keep_tokens: the tokens whose text has been returned
};

/// Converts the tokens of one sequence to pieces of visible text. Each generated sequence has one TextStream.
class TextStream {
 public:
  /// at_start, shown: passed to the Detokenizer. stop: strings that end the text; none is empty. keep_tokens:
  /// whether pieces contain their tokens. The tokenizer must outlive this object.
  TextStream(const Tokenizer& tokenizer, bool at_start, std::vector<std::string> stop, bool keep_tokens,
             std::vector<int32_t> shown = {});

  /// Adds a token, and returns the text that cannot belong to a stop string. If the token completes a stop
  /// string, the returned piece is the last piece of the text. This piece includes each held token that
  /// begins before the end of the text; other held tokens are dropped. REQUIRES: !stopped().
  TextPiece push(TokenEvent event);
  /// Call when the sequence has ended. Returns the text and tokens that were held back. An incomplete
  /// character becomes U+FFFD. Returns an empty piece after a stop.
  TextPiece finish();

  bool stopped() const { return matcher_.stopped(); }
  const std::string& stop_string() const { return matcher_.stop_string(); }  // empty if none was found
  /// Number of tokens so far, including the token that completed a stop string, and the sum of their
  /// log-probabilities.
  int n_tokens() const { return n_tokens_; }
  double sum_logprob() const { return sum_logprob_; }

 private:
  struct HeldToken {
    PlacedToken token;
    int64_t end = 0;  // characters up to the end of this token
  };

  /// Returns a piece with this text and the tokens that belong to it. all: adds all remaining tokens.
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
