// Stop strings compared with a naive implementation that sees the whole text at once, for all ways to split
// it.
#include "server/api/answer/token_text.h"

#include <algorithm>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "tests/support/catch.h"

namespace hearth {
namespace {

/// The text before the first stop string by the header's rule: the earliest end wins, then the longest.
std::string naive(const std::string& text, const std::vector<std::string>& stops, bool& stopped) {
  for (size_t end = 0; end <= text.size(); ++end) {
    std::optional<size_t> start;
    for (const std::string& stop : stops) {
      if (stop.size() <= end && text.compare(end - stop.size(), stop.size(), stop) == 0) {
        start = std::min(start.value_or(end), end - stop.size());
      }
    }
    if (start) {
      stopped = true;
      return text.substr(0, *start);
    }
  }
  stopped = false;
  return text;
}

/// Few letters, so that there are many near matches; one of them is not ASCII.
std::string random_text(std::mt19937& random, size_t n_characters) {
  const std::vector<std::string> letters = {"a", "b", "a", "\n", "é"};
  std::string text;
  for (size_t i = 0; i < n_characters; ++i) text += letters[random() % letters.size()];
  return text;
}

size_t next_boundary(const std::string& text, size_t from) {
  size_t end = from + 1;
  while (end < text.size() && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) ++end;
  return end;
}

TEST_CASE("stop strings are found where a naive search finds them, however the text is cut") {
  std::mt19937 random(20240501);
  int n_stopped = 0;
  for (int round = 0; round < 20000; ++round) {
    const std::string text = random_text(random, random() % 24);
    std::vector<std::string> stops;
    for (size_t i = 0, n = random() % 5; i < n; ++i) stops.push_back(random_text(random, 1 + random() % 6));
    bool expect_stopped = false;
    const std::string expected = naive(text, stops, expect_stopped);

    StopMatcher matcher(stops);
    std::string released;
    for (size_t at = 0; at < text.size() && !matcher.stopped();) {
      size_t end = next_boundary(text, at);
      while (end < text.size() && random() % 3 != 0) end = next_boundary(text, end);
      released += matcher.push(std::string_view(text).substr(at, end - at));
      at = end;
      // Text that a stop string would have removed is never shown.
      REQUIRE(expected.compare(0, released.size(), released) == 0);
    }
    if (!matcher.stopped()) released += matcher.finish();
    REQUIRE(released == expected);
    REQUIRE(matcher.stopped() == expect_stopped);
    n_stopped += expect_stopped;
  }
  CHECK(n_stopped > 4000);
  CHECK(n_stopped < 18000);
}

TEST_CASE("text is released as soon as no stop string can begin in it") {
  StopMatcher matcher({"\n\nUser:", "<end>"});
  CHECK(matcher.push("Hello").empty() == false);
  CHECK(matcher.push(" there\n") == " there");
  CHECK(matcher.push("\nUs") == "");
  CHECK(matcher.push("ual") == "\n\nUsual");
  CHECK(matcher.push("<en") == "");
  CHECK(matcher.push("d>, not this") == "");
  CHECK(matcher.stopped());
  CHECK(matcher.finish() == "");
}

TEST_CASE("text held back for a stop string is released at the end") {
  StopMatcher matcher({"abc"});
  CHECK(matcher.push("xab") == "x");
  CHECK(matcher.finish() == "ab");
  CHECK_FALSE(matcher.stopped());
}

}  // namespace
}  // namespace hearth
