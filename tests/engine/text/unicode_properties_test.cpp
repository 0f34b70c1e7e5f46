// Properties of single characters. test_tokenizer_oracle.py compares what follows from them with PyPI's
// tokenizers.
#include "engine/text/unicode_properties.h"

#include <cctype>

#include "tests/support/catch.h"

namespace hearth {
namespace {

std::u32string decomposed(char32_t c) {
  std::u32string out;
  append_decomposed(c, out);
  return out;
}

}  // namespace

TEST_CASE("Unicode properties: categories, lower case and decompositions of some characters") {
  CHECK(decomposed(U'a') == U"a");
  CHECK(decomposed(U'\u00E9') == U"e\u0301");
  CHECK(decomposed(U'\u1EA5') == U"a\u0302\u0301");
  CHECK(decomposed(U'\u212B') == U"A\u030A");  // by way of another character
  CHECK(decomposed(U'\uAC00') == U"\u1100\u1161");
  CHECK(decomposed(U'\uD7A3') == U"\u1112\u1175\u11C2");
  CHECK(decomposed(U'\u1F82') == U"\u03B1\u0313\u0300\u0345");  // as long as any
  CHECK(decomposed(U'\u0378') == U"\u0378");                    // unassigned
  CHECK(lower_case(U'A') == U'a');
  CHECK(lower_case(U'a') == U'a');
  CHECK(lower_case(U'\u0100') == U'\u0101');
  CHECK(lower_case(U'\u0101') == U'\u0101');
  CHECK(lower_case(U'\u03A3') == U'\u03C3');
  CHECK(lower_case(U'\U0010FFFF') == U'\U0010FFFF');
  CHECK(is_nonspacing_mark(U'\u0301'));
  CHECK_FALSE(is_nonspacing_mark(U'a'));
  CHECK(is_punctuation(U'$'));
  CHECK(is_punctuation(U'\u3002'));
  CHECK_FALSE(is_punctuation(U'\u20AC'));
  CHECK(is_other(U'\u200B'));
  CHECK(is_other(U'\0'));
  CHECK_FALSE(is_other(U' '));
}

TEST_CASE("Unicode properties: ASCII, which uses no table, has the C locale's") {
  for (int c = 0; c < 128; ++c) {
    CAPTURE(c);
    const auto character = static_cast<char32_t>(c);
    CHECK(is_punctuation(character) == (std::ispunct(c) != 0));
    CHECK(is_other(character) == (std::iscntrl(c) != 0));
    CHECK(lower_case(character) == static_cast<char32_t>(std::tolower(c)));
    CHECK_FALSE(is_nonspacing_mark(character));
    CHECK(decomposed(character) == std::u32string(1, character));
  }
}

}  // namespace hearth
