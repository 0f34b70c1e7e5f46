// Recursive-descent parser with one function for each construct; the header describes the syntax.
#include "engine/constraint/grammar/gbnf.h"

#include <algorithm>
#include <charconv>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "engine/constraint/grammar/character_set.h"
#include "kernels/base/utf8.h"

namespace hearth {
namespace {

using Expr = Grammar::Expr;
using Rule = Grammar::Rule;

constexpr size_t kMostBytes = 1 << 20;
constexpr int kMostGroups = 200;  // nesting depth; each level takes a few hundred bytes of stack
constexpr int kMostTimes = 1'000'000;

bool is_name_char(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '_';
}

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

class Parser {
 public:
  Parser(Grammar& grammar, std::string_view text) : text_(text), grammar_(grammar) {}

  Rule parse() {
    if (text_.size() > kMostBytes)
      throw ConstraintError("The grammar has " + std::to_string(text_.size()) + " bytes, expected at most " +
                                std::to_string(kMostBytes) + ".",
                            "");
    skip_space(true);
    while (!at_end()) parse_rule();
    refuse_undefined_rules();
    const auto root = rules_.find("root");
    if (root == rules_.end()) fail("the grammar has no rule \"root\", which is where texts begin; add it");
    return root->second.rule;
  }

 private:
  struct RuleUse {
    Rule rule;
    size_t first_use;
    bool defined;
  };

  void refuse_undefined_rules() const {
    const std::pair<const std::string_view, RuleUse>* first = nullptr;
    for (const auto& entry : rules_)
      if (!entry.second.defined && (first == nullptr || entry.second.first_use < first->second.first_use))
        first = &entry;
    if (first == nullptr) return;
    fail_at(first->second.first_use,
            "the rule \"" + std::string(first->first) + "\" is used but not defined; define it");
  }

  [[noreturn]] void fail(const std::string& sentence) const { fail_at(at_, sentence); }
  [[noreturn]] void fail_at(size_t at, const std::string& sentence) const {
    const std::string_view before = text_.substr(0, at);
    const auto line = 1 + std::count(before.begin(), before.end(), '\n');
    const size_t line_start = before.rfind('\n') + 1;  // 0 if there is no line break
    const std::string where =
        "line " + std::to_string(line) + ", column " + std::to_string(at - line_start + 1);
    throw ConstraintError("Grammar, " + where + ": " + sentence + ".", where);
  }
  /// Describes the text at the current position, for the part of a message that follows "found".
  std::string found() const {
    if (at_end()) return "the end";
    const char c = text_[at_];
    if (c == '\n' || c == '\r') return "the end of the line";
    if (c >= ' ' && c <= '~') return "'" + std::string(1, c) + "'";
    return "a byte that is not an ASCII character";
  }

  bool at_end() const { return at_ == text_.size(); }
  bool next_is(char c) const { return !at_end() && text_[at_] == c; }
  bool skip(char c) {
    if (!next_is(c)) return false;
    ++at_;
    return true;
  }
  void expect(char c, const char* where) {
    if (!skip(c)) fail("expected '" + std::string(1, c) + "' " + where + ", found " + found());
  }

  /// Skips blanks and comments. over_lines: whether to skip line breaks too; set where line breaks have no
  /// meaning.
  void skip_space(bool over_lines) {
    for (; !at_end(); ++at_) {
      const char c = text_[at_];
      if (c == '#') {
        at_ = std::min(text_.find_first_of("\r\n", at_), text_.size());
        if (at_end()) return;
      }
      const bool is_break = text_[at_] == '\n' || text_[at_] == '\r';
      if (is_break ? !over_lines : text_[at_] != ' ' && text_[at_] != '\t') return;
    }
  }

  std::string_view parse_name() {
    const size_t begin = at_;
    while (!at_end() && is_name_char(text_[at_])) ++at_;
    if (at_ == begin) fail("expected a rule's name, found " + found());
    return text_.substr(begin, at_ - begin);
  }

  RuleUse& rule_named(std::string_view name, size_t at) {
    const auto [entry, is_new] = rules_.try_emplace(name, RuleUse{Rule{}, at, false});
    if (is_new) entry->second.rule = grammar_.declare(std::string(name));
    return entry->second;
  }

  void parse_rule() {
    const size_t begin = at_;
    const std::string_view name = parse_name();
    skip_space(false);
    if (text_.substr(at_, 3) != "::=") fail("expected ::= after the name of a rule, found " + found());
    at_ += 3;
    skip_space(true);
    const Expr body = parse_choice(0);
    RuleUse& use = rule_named(name, begin);
    if (use.defined)
      fail_at(begin, "the rule \"" + std::string(name) + "\" is defined twice; keep one definition");
    use.defined = true;
    grammar_.define(use.rule, body);
    if (!at_end() && !next_is('\n') && !next_is('\r'))
      fail("expected an item, a | or the end of the line, found " + found());
    skip_space(true);
  }

  /// depth: the number of enclosing groups. Line breaks have no meaning inside a group.
  Expr parse_choice(int depth) {
    std::vector<Expr> options{parse_sequence(depth)};
    while (skip_bar(depth > 0)) {
      skip_space(true);
      options.push_back(parse_sequence(depth));
    }
    return grammar_.choice(options);
  }

  /// Skips the | before another alternative. This | may also be at the beginning of the next line. Returns
  /// false if there is no |.
  bool skip_bar(bool in_group) {
    const size_t begin = at_;
    skip_space(true);
    if (skip('|')) return true;
    if (!in_group) at_ = begin;
    return false;
  }

  Expr parse_sequence(int depth) {
    std::vector<Expr> items;
    for (skip_space(depth > 0); begins_item(); skip_space(depth > 0))
      items.push_back(parse_repeats(parse_item(depth)));
    return grammar_.sequence(items);
  }

  bool begins_item() const {
    if (at_end()) return false;
    const char c = text_[at_];
    if (c == '<' || c == '!')
      fail("tokens in a grammar are not supported, found " + found() + "; write their text");
    return c == '"' || c == '[' || c == '(' || c == '.' || is_name_char(c);
  }

  Expr parse_item(int depth) {
    const size_t begin = at_;
    if (skip('"')) return parse_literal();
    if (skip('[')) return parse_class();
    if (skip('.')) return grammar_.character(all_characters());
    if (skip('(')) return parse_group(depth);
    const std::string_view name = parse_name();
    return grammar_.call(rule_named(name, begin).rule);
  }

  Expr parse_group(int depth) {
    if (depth == kMostGroups)
      fail("more than " + std::to_string(kMostGroups) + " groups within each other; use rules");
    const Expr inner = parse_choice(depth + 1);
    expect(')', "to end the group");
    return inner;
  }

  Expr parse_literal() {
    std::string bytes;
    while (!skip('"')) {
      if (at_end()) fail("expected '\"' to end the literal, found the end");
      append_utf8(parse_char(), bytes);
    }
    return grammar_.literal(bytes);
  }

  Expr parse_class() {
    const bool is_negated = skip('^');
    std::vector<CharRange> ranges;
    while (!skip(']')) {
      if (at_end()) fail("expected ']' to end the class, found the end");
      const size_t begin = at_;
      const char32_t first = parse_char();
      char32_t last = first;
      const bool is_range = next_is('-') && text_.substr(at_, 2) != "-]";
      if (is_range) {
        ++at_;
        if (at_end()) fail("expected ']' to end the class, found the end");
        last = parse_char();
      }
      if (last < first) fail_at(begin, "the range ends before it begins; swap its ends");
      ranges.emplace_back(first, last);
    }
    return grammar_.character(is_negated ? complement(character_set(std::move(ranges))) : ranges);
  }

  /// Parses one character of a literal or a class. REQUIRES: the text does not end here.
  char32_t parse_char() {
    if (skip('\\')) return parse_escape();
    return parse_utf8();
  }

  char32_t parse_escape() {
    if (at_end()) fail("expected a character after \\, found the end");
    const char c = text_[at_++];
    switch (c) {
      case 'n':
        return '\n';
      case 'r':
        return '\r';
      case 't':
        return '\t';
      case '\\':
      case '"':
      case '[':
      case ']':
        return static_cast<char32_t>(c);
      case 'x':
        return parse_hex(2);
      case 'u':
        return parse_hex(4);
      case 'U':
        return parse_hex(8);
      default:
        --at_;
        fail("expected n, r, t, \\, \", [, ], x, u or U behind \\, found " + found());
    }
  }

  char32_t parse_hex(int n_digits) {
    const size_t begin = at_;
    uint64_t value = 0;
    for (int i = 0; i < n_digits; ++i, ++at_) {
      const int digit = at_end() ? -1 : hex_digit(text_[at_]);
      if (digit < 0) fail("expected " + std::to_string(n_digits) + " hexadecimal digits, found " + found());
      value = value * 16 + static_cast<uint64_t>(digit);
    }
    if (value > kLastCodePoint || (value >= 0xD800 && value <= 0xDFFF))
      fail_at(begin, "the number is not a character: expected 0 to 10FFFF without D800 to DFFF");
    return static_cast<char32_t>(value);
  }

  char32_t parse_utf8() {
    const Utf8Char front = utf8_front(text_.substr(at_));
    if (front.status != Utf8Status::kWhole) fail("the grammar is not UTF-8; encode it so");
    at_ += front.length;
    return code_points(text_.substr(at_ - front.length, front.length))[0];
  }

  /// Parses the quantifiers after an item: * + ? {m} {m,} {m,n}. An item may have several.
  Expr parse_repeats(Expr item) {
    for (;;) {
      if (skip('*')) {
        item = grammar_.any_number(item);
      } else if (skip('+')) {
        item = grammar_.repeat(item, 1, Grammar::kNoMaximum);
      } else if (skip('?')) {
        item = grammar_.optional(item);
      } else if (skip('{')) {
        item = parse_times(item);
      } else {
        return item;
      }
    }
  }

  Expr parse_times(Expr item) {
    const size_t begin = at_;
    const int least = parse_number();
    int most = least;
    if (skip_blank_and(',')) most = next_is_blank_and('}') ? Grammar::kNoMaximum : parse_number();
    skip_space(false);
    expect('}', "to end the repetition");
    if (most != Grammar::kNoMaximum && most < least)
      fail_at(begin, "the repetition's maximum is below its minimum; swap them");
    return grammar_.repeat(item, least, most);
  }
  bool skip_blank_and(char c) {
    skip_space(false);
    return skip(c);
  }
  bool next_is_blank_and(char c) {
    skip_space(false);
    return next_is(c);
  }

  int parse_number() {
    skip_space(false);
    int value = 0;
    const char* begin = text_.data() + at_;
    const auto [end, error] = std::from_chars(begin, text_.data() + text_.size(), value);
    if (error == std::errc::invalid_argument || value < 0)
      fail("expected a number of times, found " + found());
    if (error != std::errc() || value > kMostTimes)
      fail("expected at most " + std::to_string(kMostTimes) + " times, found more");
    at_ += static_cast<size_t>(end - begin);
    return value;
  }

  const std::string_view text_;
  size_t at_ = 0;
  Grammar& grammar_;
  std::unordered_map<std::string_view, RuleUse> rules_;
};

}  // namespace

Grammar parse_gbnf(std::string_view text) {
  Grammar grammar;
  grammar.set_root(Parser(grammar, text).parse());
  return grammar;
}

Grammar::Expr gbnf_expression(Grammar& grammar, std::string_view text) {
  return grammar.call(Parser(grammar, text).parse());
}

}  // namespace hearth
