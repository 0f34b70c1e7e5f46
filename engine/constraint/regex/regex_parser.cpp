#include "engine/constraint/regex/regex_parser.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "kernels/base/utf8.h"

namespace hearth {
namespace {

constexpr size_t kMaxPatternBytes = 20'000;
constexpr int kMaxDepth = 100;
constexpr int kMaxCount = 10'000;

using Kind = RegexNode::Kind;

const CharacterSet& digits() {
  static const CharacterSet set{{U'0', U'9'}};
  return set;
}

const CharacterSet& word_characters() {
  static const CharacterSet set{{U'0', U'9'}, {U'A', U'Z'}, {U'_', U'_'}, {U'a', U'z'}};
  return set;
}

/// The white space that both ECMA-262 and Python recognize.
const CharacterSet& agreed_spaces() {
  static const CharacterSet set{{0x09, 0x0D},     {0x20, 0x20},     {0xA0, 0xA0},
                                {0x1680, 0x1680}, {0x2000, 0x200A}, {0x2028, 0x2029},
                                {0x202F, 0x202F}, {0x205F, 0x205F}, {0x3000, 0x3000}};
  return set;
}

/// Characters that neither ECMA-262 nor Python counts as white space.
CharacterSet agreed_non_spaces() {
  CharacterSet spaces = agreed_spaces();
  spaces.insert(spaces.end(), {{0x1C, 0x1F}, {0x85, 0x85}, {0xFEFF, 0xFEFF}});
  return complement(character_set(std::move(spaces)));
}

/// ECMA-262's line terminators; Python's is \n alone.
const CharacterSet& line_terminators() {
  static const CharacterSet set{{U'\n', U'\n'}, {U'\r', U'\r'}, {0x2028, 0x2029}};
  return set;
}

bool is_digit(char32_t c) { return c >= U'0' && c <= U'9'; }
bool is_letter(char32_t c) { return (c >= U'a' && c <= U'z') || (c >= U'A' && c <= U'Z'); }
bool is_surrogate(char32_t c) { return c >= 0xD800 && c <= 0xDFFF; }

[[noreturn]] void refuse_at(size_t position, const std::string& sentence) {
  throw ConstraintError(sentence, "position " + std::to_string(position));
}

class Parser {
 public:
  explicit Parser(std::u32string text) : text_(std::move(text)) {}

  RegexNode parse() {
    RegexNode node = choice(0);
    if (!at_end()) refuse("\")\" closes no group; write \"\\)\" for the character itself.");
    return node;
  }

 private:
  bool at_end() const { return next_ == text_.size(); }
  char32_t peek(size_t ahead = 0) const {
    return next_ + ahead < text_.size() ? text_[next_ + ahead] : U'\0';
  }
  bool take(char32_t c) {
    if (at_end() || text_[next_] != c) return false;
    ++next_;
    return true;
  }
  bool take(std::u32string_view word) {
    if (std::u32string_view(text_).substr(next_, word.size()) != word) return false;
    next_ += word.size();
    return true;
  }
  [[noreturn]] void refuse(const std::string& sentence) const { refuse_at(next_ + 1, sentence); }
  RegexNode node(Kind kind, size_t begin) const { return {.kind = kind, .position = begin + 1}; }

  RegexNode choice(int depth) {
    if (depth > kMaxDepth)
      refuse("Groups are nested more than " + std::to_string(kMaxDepth) + " deep; nest them less.");
    RegexNode all = node(Kind::kChoice, next_);
    do {
      all.children.push_back(sequence(depth));
    } while (take(U'|'));
    if (all.children.size() > 1) return all;
    RegexNode only = std::move(all.children[0]);
    return only;
  }

  RegexNode sequence(int depth) {
    RegexNode all = node(Kind::kSequence, next_);
    while (!at_end() && peek() != U'|' && peek() != U')') all.children.push_back(quantified(depth));
    return all;
  }

  RegexNode quantified(int depth) {
    const size_t begin = next_;
    RegexNode item = atom(depth);
    const auto counts = quantifier();
    if (!counts) return item;
    if (item.kind == Kind::kStart || item.kind == Kind::kEnd)
      refuse_at(begin + 1, "An anchor cannot be repeated; take the quantifier away.");
    if (peek() == U'*' || peek() == U'+' || is_counted_quantifier())
      refuse(
          "A quantifier follows a quantifier; possessive quantifiers are not supported, and others need a "
          "group.");
    RegexNode repeat = node(Kind::kRepeat, begin);
    repeat.least = counts->first;
    repeat.most = counts->second;
    repeat.children.push_back(std::move(item));
    return repeat;
  }

  bool is_counted_quantifier() const { return peek() == U'{' && (is_digit(peek(1)) || peek(1) == U','); }

  /// If there is a quantifier at this position, consumes it and returns its counts. Lazy and greedy
  /// quantifiers have the same counts.
  std::optional<std::pair<int, int>> quantifier() {
    std::optional<std::pair<int, int>> counts;
    if (take(U'*'))
      counts = {0, Grammar::kNoMaximum};
    else if (take(U'+'))
      counts = {1, Grammar::kNoMaximum};
    else if (take(U'?'))
      counts = {0, 1};
    else if (is_counted_quantifier())
      counts = counted_quantifier();
    if (counts) take(U'?');
    return counts;
  }

  std::pair<int, int> counted_quantifier() {
    const size_t begin = next_++;
    if (peek() == U',') refuse("The count has no minimum; write {0,N}.");
    const int least = count();
    int most = least;
    if (take(U',')) most = is_digit(peek()) ? count() : Grammar::kNoMaximum;
    if (!take(U'}')) refuse("The count is not closed; write {M}, {M,} or {M,N}.");
    if (most != Grammar::kNoMaximum && most < least)
      refuse_at(begin + 1, "The count's maximum is below its minimum.");
    return {least, most};
  }

  int count() {
    const size_t begin = next_;
    int value = 0;
    while (is_digit(peek())) {
      value = value * 10 + static_cast<int>(text_[next_] - U'0');
      if (value > kMaxCount)
        refuse_at(begin + 1,
                  "A count is above " + std::to_string(kMaxCount) + ", the most that is supported.");
      ++next_;
    }
    return value;
  }

  RegexNode atom(int depth) {
    const size_t begin = next_;
    const char32_t c = text_[next_];
    if (c == U'(') return group(depth);
    if (c == U'*' || c == U'+' || c == U'?' || is_counted_quantifier())
      refuse("There is nothing to repeat here; write a backslash before the character to match it.");
    if (c == U'^' || c == U'$') {
      ++next_;
      return node(c == U'^' ? Kind::kStart : Kind::kEnd, begin);
    }
    RegexNode leaf = node(Kind::kCharacter, begin);
    if (c == U'[') {
      leaf.characters = char_class();
    } else if (c == U'\\') {
      leaf.characters = escape(false);
    } else {
      ++next_;
      leaf.characters = c == U'.' ? complement(line_terminators()) : CharacterSet{{c, c}};
    }
    return leaf;
  }

  RegexNode group(int depth) {
    const size_t begin = next_++;
    if (peek() == U'?' && !take(U"?:")) group_name();
    RegexNode inner = choice(depth + 1);
    if (!take(U')')) refuse_at(begin + 1, "The group that begins here is not closed.");
    inner.position = begin + 1;
    return inner;
  }

  /// Consumes (?<name> or (?P<name>. Refuses everything else that begins with (?.
  void group_name() {
    static constexpr std::u32string_view kRefused[] = {U"?=",  U"?!",  U"?<=", U"?<!", U"?>",
                                                       U"?P=", U"?P>", U"?#",  U"?("};
    for (const std::u32string_view begin : kRefused)
      if (std::u32string_view(text_).substr(next_, begin.size()) == begin)
        refuse("Lookaround, backreferences, atomic and conditional groups and comments are not supported.");
    if (!take(U"?<") && !take(U"?P<"))
      refuse("Flags such as (?i) are not supported; write both cases in a class.");
    const size_t name = next_;
    while (is_letter(peek()) || peek() == U'_' || (next_ > name && is_digit(peek()))) ++next_;
    if (next_ == name || !take(U'>')) refuse("A group's name is letters, digits and \"_\", then \">\".");
  }

  CharacterSet char_class() {
    const size_t begin = next_++;
    const bool negated = take(U'^');
    if (peek() == U']') refuse("A class may not begin with \"]\"; write \"\\]\" for the character itself.");
    std::vector<CharRange> ranges;
    while (!at_end() && peek() != U']') class_item(ranges);
    if (!take(U']')) refuse_at(begin + 1, "The class that begins here is not closed.");
    CharacterSet set = character_set(std::move(ranges));
    return negated ? complement(set) : set;
  }

  void class_item(std::vector<CharRange>& ranges) {
    const size_t begin = next_;
    const CharacterSet first = class_atom();
    const bool is_range = peek() == U'-' && next_ + 1 < text_.size() && peek(1) != U']';
    if (!is_range) {
      ranges.insert(ranges.end(), first.begin(), first.end());
      return;
    }
    ++next_;
    const CharacterSet last = class_atom();
    const auto is_one = [](const CharacterSet& set) {
      return set.size() == 1 && set[0].first == set[0].second;
    };
    if (!is_one(first) || !is_one(last))
      refuse_at(
          begin + 1,
          "A range of a class goes from one character to another; write \"\\-\" for the character itself.");
    if (first[0].first > last[0].first) refuse_at(begin + 1, "A range of a class ends before it begins.");
    ranges.emplace_back(first[0].first, last[0].first);
  }

  CharacterSet class_atom() {
    const char32_t c = peek();
    if (c == U'\\') return escape(true);
    const char32_t then = peek(1);
    // Some regex syntaxes treat the characters tested here as set operators, others as plain characters.
    if (c == U'[' || ((c == U'&' || c == U'-' || c == U'~' || c == U'|') && then == c))
      refuse(
          "\"[\", \"&&\", \"--\", \"~~\" and \"||\" in a class mean different things in different syntaxes; "
          "write a "
          "backslash before the character.");
    ++next_;
    return {{c, c}};
  }

  /// Consumes an escape sequence, starting at its backslash.
  CharacterSet escape(bool in_class) {
    const size_t begin = next_++;
    if (at_end())
      refuse_at(begin + 1, "The pattern ends in a backslash; write two for the character itself.");
    const char32_t c = text_[next_++];
    if (const auto set = class_escape(c)) return *set;
    const char32_t value = character_escape(c, begin, in_class);
    return {{value, value}};
  }

  static std::optional<CharacterSet> class_escape(char32_t c) {
    switch (c) {
      case U'd':
        return digits();
      case U'D':
        return complement(digits());
      case U'w':
        return word_characters();
      case U'W':
        return complement(word_characters());
      case U's':
        return agreed_spaces();
      case U'S':
        return agreed_non_spaces();
      default:
        return {};
    }
  }

  char32_t character_escape(char32_t c, size_t begin, bool in_class) {
    switch (c) {
      case U't':
        return U'\t';
      case U'n':
        return U'\n';
      case U'v':
        return U'\v';
      case U'f':
        return U'\f';
      case U'r':
        return U'\r';
      case U'x':
        return hex(2, begin);
      case U'u':
        return unicode_escape(begin);
      case U'U':
        return hex(8, begin);
      default:
        break;
    }
    if (c == U'b' && in_class) return U'\b';
    if (c == U'0' && !is_digit(peek())) return U'\0';
    if (c < 0x80 && c > 0x1F && !is_letter(c) && !is_digit(c)) return c;
    refuse_escape(c, begin);
  }

  [[noreturn]] static void refuse_escape(char32_t c, size_t begin) {
    if (c == U'b' || c == U'B') refuse_at(begin + 1, "Word boundaries are not supported.");
    if (is_digit(c) || c == U'k') refuse_at(begin + 1, "Backreferences and octal escapes are not supported.");
    if (c == U'p' || c == U'P')
      refuse_at(begin + 1, "Unicode properties are not supported; write the characters as a class.");
    refuse_at(begin + 1, "This escape is not supported; write a character itself, or as \\uNNNN.");
  }

  char32_t unicode_escape(size_t begin) {
    if (take(U'{')) {
      const size_t first = next_;
      while (peek() != U'}' && !at_end()) ++next_;
      const size_t n = next_ - first;
      next_ = first;
      const char32_t value = hex(n, begin);
      if (!take(U'}')) refuse("The escape \\u{ is not closed.");
      return value;
    }
    const char32_t high = hex_digits(4, begin);
    if (high < 0xD800 || high > 0xDBFF || !take(U"\\u")) return checked(high, begin);
    const char32_t low = hex_digits(4, begin);
    if (low < 0xDC00 || low > 0xDFFF) return checked(high, begin);
    return 0x10000 + ((high - 0xD800) << 10) + (low - 0xDC00);
  }

  char32_t hex(size_t n, size_t begin) { return checked(hex_digits(n, begin), begin); }

  char32_t hex_digits(size_t n, size_t begin) {
    char32_t value = 0;
    if (n == 0 || n > 8) refuse_at(begin + 1, "\\u{...} takes 1 to 8 hexadecimal digits.");
    for (size_t i = 0; i < n; ++i) {
      const char32_t c = peek();
      const char32_t lower = c | 0x20;
      if (!is_digit(c) && (lower < U'a' || lower > U'f')) refuse("A hexadecimal digit is expected here.");
      value = value * 16 + (is_digit(c) ? c - U'0' : lower - U'a' + 10);
      ++next_;
    }
    return value;
  }

  static char32_t checked(char32_t value, size_t begin) {
    if (is_surrogate(value) || value > kLastCodePoint)
      refuse_at(begin + 1, "The escape does not stand for a character that a text can have.");
    return value;
  }

  std::u32string text_;
  size_t next_ = 0;
};

}  // namespace

RegexNode parse_regex(std::string_view pattern) {
  if (pattern.size() > kMaxPatternBytes)
    throw ConstraintError("The regular expression has " + std::to_string(pattern.size()) +
                              " bytes, more than " + std::to_string(kMaxPatternBytes) + "; make it shorter.",
                          "");
  const size_t valid = utf8_valid_prefix(pattern);
  if (valid != pattern.size())
    refuse_at(code_points(pattern.substr(0, valid)).size() + 1,
              "The regular expression is not valid UTF-8 here.");
  RegexNode root = Parser(code_points(pattern)).parse();
  regex_size(root);
  return root;
}

size_t regex_size(const RegexNode& node) {
  size_t size = 1;
  for (const RegexNode& child : node.children) size += regex_size(child);
  if (node.kind == Kind::kRepeat) size *= static_cast<size_t>(std::max({node.least, node.most, 1}));
  if (size > kMaxRegexSize)
    refuse_regex(node, "Written out, its counted repeats take more than " + std::to_string(kMaxRegexSize) +
                           " characters; lower the counts.");
  return size;
}

void refuse_regex(const RegexNode& node, const std::string& sentence) { refuse_at(node.position, sentence); }

}  // namespace hearth
