// Pre-tokenizer expressions on PCRE2: see the header.
#include "engine/text/split_pattern.h"

// PCRE2's header declares three libraries; this selects the one for 8-bit characters.
#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <algorithm>
#include <limits>
#include <stdexcept>
#include <string>

namespace hearth {
namespace {

struct MatchDataDeleter {
  void operator()(pcre2_match_data* data) const { pcre2_match_data_free(data); }
};
struct MatchContextDeleter {
  void operator()(pcre2_match_context* context) const { pcre2_match_context_free(context); }
};

/// PCRE2's own \s treats U+180E as a space; Unicode and the libraries that define these patterns do not.
std::string with_unicode_whitespace(std::string_view pattern) {
  constexpr std::string_view kWhitespace = R"(\p{Z}\t-\r\x{85})";
  std::string out;
  bool in_class = false;
  for (size_t i = 0; i < pattern.size(); ++i) {
    const char c = pattern[i];
    if (c == '\\' && i + 1 < pattern.size()) {
      const char escaped = pattern[++i];
      if (escaped == 's' && in_class) {
        out.append(kWhitespace);
      } else if (escaped == 's' || escaped == 'S') {
        out.append(escaped == 's' ? "[" : "[^").append(kWhitespace).append("]");
      } else {
        out.append({'\\', escaped});
      }
      continue;
    }
    if (c == '[') in_class = true;
    if (c == ']') in_class = false;
    out.push_back(c);
  }
  return out;
}

/// Returns the number of backtracking steps allowed in one match. The patterns need a few steps per byte. If
/// a match ever needs more than allowed, the rest of the text is not split further. So the time of a match
/// stays linear in the text's length.
uint32_t match_limit(size_t text_bytes) {
  constexpr size_t kStepsPerByte = 32;
  constexpr size_t kLeast = 10'000;
  constexpr size_t kMost = std::numeric_limits<uint32_t>::max();
  return static_cast<uint32_t>(std::min(kMost, kLeast + kStepsPerByte * text_bytes));
}

}  // namespace

struct SplitPattern::Compiled {
  struct Deleter {
    void operator()(pcre2_code* compiled) const { pcre2_code_free(compiled); }
  };
  std::unique_ptr<pcre2_code, Deleter> code;
};

SplitPattern::SplitPattern(std::string_view pattern) : compiled_(std::make_unique<Compiled>()) {
  const std::string source = with_unicode_whitespace(pattern);
  int error = 0;
  PCRE2_SIZE offset = 0;
  compiled_->code.reset(pcre2_compile(reinterpret_cast<PCRE2_SPTR>(source.data()), source.size(),
                                      PCRE2_UTF | PCRE2_UCP, &error, &offset, nullptr));
  if (!compiled_->code) {
    throw std::logic_error("pre-tokenizer pattern '" + source + "' does not compile: PCRE2 error " +
                           std::to_string(error) + " at byte " + std::to_string(offset));
  }
  // If PCRE2 has no just-in-time compiler for this machine, it interprets the pattern. Interpreting is slower
  // but finds equal matches.
  pcre2_jit_compile(compiled_->code.get(), PCRE2_JIT_COMPLETE);
}

SplitPattern::SplitPattern(SplitPattern&&) noexcept = default;
SplitPattern& SplitPattern::operator=(SplitPattern&&) noexcept = default;
SplitPattern::~SplitPattern() = default;

void SplitPattern::split(std::string_view text, const std::vector<Piece>& pieces,
                         std::vector<Piece>& out) const {
  const pcre2_code* code = compiled_->code.get();
  const std::unique_ptr<pcre2_match_data, MatchDataDeleter> data(pcre2_match_data_create(1, nullptr));
  const std::unique_ptr<pcre2_match_context, MatchContextDeleter> context(
      pcre2_match_context_create(nullptr));
  if (!data || !context) throw std::bad_alloc();
  pcre2_set_match_limit(context.get(), match_limit(text.size()));
  const PCRE2_SIZE* found = pcre2_get_ovector_pointer(data.get());

  for (const Piece& piece : pieces) {
    const PCRE2_SPTR subject = reinterpret_cast<PCRE2_SPTR>(text.data() + piece.begin);
    size_t at = 0;
    while (at < piece.length) {
      const int n = pcre2_match(code, subject, piece.length, at, PCRE2_NO_UTF_CHECK | PCRE2_NOTEMPTY,
                                data.get(), context.get());
      // There is no further match, or the match hit a limit: the rest is one piece.
      if (n < 0) break;
      if (found[0] > at) out.push_back({piece.begin + at, found[0] - at});
      out.push_back({piece.begin + found[0], found[1] - found[0]});
      at = found[1];
    }
    if (at < piece.length) out.push_back({piece.begin + at, piece.length - at});
  }
}

}  // namespace hearth
