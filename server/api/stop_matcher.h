// Finds stop strings in text that arrives in pieces, holding back what may yet turn out to be the start of
// one.
//
// One per generated sequence, on the HTTP thread that answers it. What comes out does not depend on how the
// text was cut: the text ends at the first character that completes a stop string; if several are completed
// by that character, the longest counts.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace hearth {

class StopMatcher {
 public:
  /// stops: whole UTF-8 strings, none empty.
  explicit StopMatcher(std::vector<std::string> stops);

  /// Takes the next piece (whole UTF-8 characters) and returns the text that is now certain to lie before any
  /// stop string: whole characters again. After a match it returns what was left before it, and stopped() is
  /// true. REQUIRES: !stopped().
  std::string push(std::string_view text);
  /// The end of the text: what was held back, for no stop string can be completed any more.
  std::string finish();
  bool stopped() const { return stopped_; }

 private:
  size_t held_length() const;

  std::vector<std::string> stops_;
  std::string held_;  // a suffix of the text so far that is a proper prefix of a stop string
  bool stopped_ = false;
};

}  // namespace hearth
