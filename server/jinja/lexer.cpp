// Implements Jinja's lexer without regular expressions.
#include "server/jinja/lexer.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdio>

#include "server/jinja/template_error.h"
#include "server/jinja/text.h"

namespace hearth::jinja {
namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_name_start(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' ||
         static_cast<unsigned char>(c) >= 0x80;
}
bool is_name_char(char c) { return is_name_start(c) || is_digit(c); }

// Replaces \r\n and \r with \n, and drops one newline at the end of the template.
std::string normalize_newlines(std::string_view source) {
  std::string text;
  text.reserve(source.size());
  for (std::size_t i = 0; i < source.size(); ++i) {
    if (source[i] == '\r') {
      text += '\n';
      if (i + 1 < source.size() && source[i + 1] == '\n') ++i;
    } else {
      text += source[i];
    }
  }
  if (!text.empty() && text.back() == '\n') text.pop_back();
  return text;
}

// Reads exactly n hexadecimal digits at `at` and moves past them.
char32_t hex_escape(std::string_view inner, std::size_t& at, std::size_t n) {
  const std::string_view digits = inner.substr(at, n);
  unsigned value = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value, 16);
  if (digits.size() != n || error != std::errc() || end != digits.data() + n || value > 0x10FFFF) {
    throw Failure("a string holds a truncated or invalid \\x, \\u or \\U escape");
  }
  at += n;
  return value;
}

char32_t octal_escape(std::string_view inner, std::size_t& at) {
  char32_t value = 0;
  for (int i = 0; i < 3 && at < inner.size() && inner[at] >= '0' && inner[at] <= '7'; ++i) {
    value = value * 8 + static_cast<char32_t>(inner[at++] - '0');
  }
  return value;
}

// Returns the value of a string literal. inner: the text between the quotes. Replaces Python's escapes; an
// unknown escape keeps its backslash. Throws Failure.
std::string unescape(std::string_view inner) {
  static constexpr std::string_view kLetters = "\\'\"abfnrtv";
  static constexpr std::string_view kMeanings = "\\'\"\a\b\f\n\r\t\v";
  std::string value;
  value.reserve(inner.size());
  for (std::size_t at = 0; at < inner.size();) {
    if (inner[at] != '\\' || at + 1 == inner.size()) {
      value += inner[at++];
      continue;
    }
    const char c = inner[at + 1];
    at += 2;
    if (const std::size_t i = kLetters.find(c); i != std::string_view::npos) {
      value += kMeanings[i];
    } else if (c == 'x') {
      append_code_point(value, hex_escape(inner, at, 2));
    } else if (c == 'u') {
      append_code_point(value, hex_escape(inner, at, 4));
    } else if (c == 'U') {
      append_code_point(value, hex_escape(inner, at, 8));
    } else if (c >= '0' && c <= '7') {
      append_code_point(value, octal_escape(inner, --at));
    } else if (c == 'N') {
      throw Failure("a string uses the escape \\N{...}, which is not supported; write \\uXXXX");
    } else if (c != '\n') {  // a backslash before a newline continues the literal on the next line
      value += '\\';
      value += c;
    }
  }
  return value;
}

class Lexer {
 public:
  explicit Lexer(std::string_view source) : source_(normalize_newlines(source)), text_(source_) {}

  std::vector<Token> run() {
    if (!is_valid_utf8(text_)) throw TemplateError(1, "the template is not valid UTF-8");
    while (at_ < text_.size()) root();
    push(Token::Type::end, "");
    return std::move(tokens_);
  }

 private:
  // Reads the text up to the next tag, and then that tag.
  void root() {
    std::size_t tag = at_;
    while ((tag = text_.find('{', tag)) != std::string_view::npos) {
      if (tag + 1 < text_.size() && (text_[tag + 1] == '{' || text_[tag + 1] == '%' || text_[tag + 1] == '#'))
        break;
      ++tag;
    }
    if (tag == std::string_view::npos) {
      push(Token::Type::data, text_.substr(at_));
      at_ = text_.size();
      return;
    }
    const char kind = text_[tag + 1];
    const std::size_t after = tag + 2;
    const char sign = after < text_.size() && (text_[after] == '-' || text_[after] == '+') ? text_[after] : 0;
    data(tag, sign, kind != '{');
    at_ = after + (sign ? 1 : 0);
    if (kind == '#') {
      comment();
    } else if (kind == '{') {
      inside(Token::Type::output_begin, Token::Type::output_end, '}');
    } else if (!raw()) {
      inside(Token::Type::block_begin, Token::Type::block_end, '%');
    }
  }

  // Emits the text up to `end`, without the white space that the next tag removes.
  void data(std::size_t end, char sign, bool may_lstrip) {
    std::string_view piece = text_.substr(at_, end - at_);
    if (sign == '-') {
      push(Token::Type::data, strip(piece, Side::right));
    } else if (sign != '+' && may_lstrip) {
      const std::size_t newline = piece.rfind('\n');
      const std::size_t line_start = newline == std::string_view::npos ? 0 : newline + 1;
      const bool at_line_start = line_start > 0 || line_starting_;
      if (at_line_start && strip(piece.substr(line_start), Side::left).empty()) {
        push(Token::Type::data, piece.substr(0, line_start));
      } else {
        push(Token::Type::data, piece);
      }
    } else {
      push(Token::Type::data, piece);
    }
    count_lines(piece);
  }

  void comment() {
    const std::size_t end = text_.find("#}", at_);
    if (end == std::string_view::npos) fail("a comment {# is not closed with #}");
    const char sign = end > at_ ? text_[end - 1] : 0;
    count_lines(text_.substr(at_, end - at_));
    at_ = end + 2;
    after_tag(sign, true);
  }

  // Reads {% raw %} ... {% endraw %}. REQUIRES: at_ is right after "{%". Returns false and leaves at_
  // unchanged if the tag is not raw.
  bool raw() {
    std::size_t at = skip_space(at_);
    if (text_.substr(at, 3) != "raw") return false;
    at = skip_space(at + 3);
    const char begin_sign = at < text_.size() && text_[at] == '-' ? '-' : 0;
    if (begin_sign) ++at;
    if (text_.substr(at, 2) != "%}") return false;
    count_lines(text_.substr(at_, at - at_));
    at_ = at + 2;
    after_tag(begin_sign, false);
    for (std::size_t tag = at_; (tag = text_.find("{%", tag)) != std::string_view::npos; ++tag) {
      std::size_t end = tag + 2;
      const char sign = end < text_.size() && (text_[end] == '-' || text_[end] == '+') ? text_[end] : 0;
      end = skip_space(end + (sign ? 1 : 0));
      if (text_.substr(end, 6) != "endraw") continue;
      end = skip_space(end + 6);
      const char end_sign = end < text_.size() && (text_[end] == '-' || text_[end] == '+') ? text_[end] : 0;
      if (end_sign) ++end;
      if (text_.substr(end, 2) != "%}") continue;
      data(tag, sign, true);
      count_lines(text_.substr(tag, end - tag));
      at_ = end + 2;
      after_tag(end_sign, true);
      return true;
    }
    fail("{% raw %} is not closed with {% endraw %}");
  }

  // Splits the content of {{ }} or {% %} into tokens.
  void inside(Token::Type begin, Token::Type end, char closing) {
    push(begin, "");
    std::string open_brackets;
    while (true) {
      const std::size_t start = at_;
      at_ = skip_space(at_);
      count_lines(text_.substr(start, at_ - start));
      if (at_ >= text_.size()) fail(closing == '}' ? "{{ is not closed with }}" : "{% is not closed with %}");
      if (open_brackets.empty()) {
        const bool signed_end = text_[at_] == '-' || (text_[at_] == '+' && closing == '%');
        const std::size_t close = at_ + (signed_end ? 1 : 0);
        if (text_.substr(close, 2) == std::string{closing, '}'}) {
          const char sign = signed_end ? text_[at_] : 0;
          push(end, "");
          at_ = close + 2;
          after_tag(sign, closing == '%');
          return;
        }
      }
      token(open_brackets);
    }
  }

  void token(std::string& open_brackets) {
    const char c = text_[at_];
    if (is_digit(c)) {
      number();
    } else if (is_name_start(c)) {
      const std::size_t start = at_;
      while (at_ < text_.size() && is_name_char(text_[at_])) ++at_;
      push(Token::Type::name, text_.substr(start, at_ - start));
    } else if (c == '\'' || c == '"') {
      string_literal(c);
    } else {
      operator_token(open_brackets);
    }
  }

  void number() {
    const std::size_t start = at_;
    const bool after_dot = start > 0 && text_[start - 1] == '.';
    if (text_[at_] == '0' && at_ + 1 < text_.size() &&
        std::string_view("xXoObB").find(text_[at_ + 1]) != std::string_view::npos) {
      radix_number();
      return;
    }
    std::string digits = take_digits();
    bool is_real = false;
    if (!after_dot && at_ + 1 < text_.size() && text_[at_] == '.' && is_digit(text_[at_ + 1])) {
      ++at_;
      digits += "." + take_digits();
      is_real = true;
    }
    if (!after_dot && at_ < text_.size() && (text_[at_] == 'e' || text_[at_] == 'E')) {
      std::size_t exponent = at_ + 1;
      const bool has_sign = exponent < text_.size() && (text_[exponent] == '+' || text_[exponent] == '-');
      if (has_sign) ++exponent;
      if (exponent < text_.size() && is_digit(text_[exponent])) {
        digits += "e";
        if (has_sign) digits += text_[exponent - 1];
        at_ = exponent;
        digits += take_digits();
        is_real = true;
      }
    }
    if (is_real) {
      push(Token::Type::real, text_.substr(start, at_ - start));
      std::from_chars(digits.data(), digits.data() + digits.size(), tokens_.back().real);
    } else {
      push_integer(digits, 10, text_.substr(start, at_ - start));
    }
  }

  void radix_number() {
    const std::size_t start = at_;
    const char letter = static_cast<char>(text_[at_ + 1] | 0x20);
    const int base = letter == 'x' ? 16 : letter == 'o' ? 8 : 2;
    at_ += 2;
    std::string digits;
    for (; at_ < text_.size() && is_name_char(text_[at_]); ++at_) {
      if (text_[at_] != '_') digits += text_[at_];
    }
    push_integer(digits, base, text_.substr(start, at_ - start));
  }

  void push_integer(const std::string& digits, int base, std::string_view shown) {
    push(Token::Type::integer, shown);
    const char* last = digits.data() + digits.size();
    const auto [end, error] = std::from_chars(digits.data(), last, tokens_.back().integer, base);
    if (error != std::errc() || end != last)
      fail("'" + std::string(shown) + "' is not an integer of 64 bits");
  }

  // Reads digits. Drops the underscores between them.
  std::string take_digits() {
    std::string digits;
    while (at_ < text_.size()) {
      if (is_digit(text_[at_])) {
        digits += text_[at_++];
      } else if (text_[at_] == '_' && at_ + 1 < text_.size() && is_digit(text_[at_ + 1])) {
        ++at_;
      } else {
        break;
      }
    }
    return digits;
  }

  void string_literal(char quote) {
    std::size_t end = at_ + 1;
    while (end < text_.size() && text_[end] != quote) end += text_[end] == '\\' ? 2 : 1;
    if (end >= text_.size()) fail("a string is not closed");
    const std::string_view inner = text_.substr(at_ + 1, end - at_ - 1);
    try {
      push(Token::Type::text, unescape(inner));
    } catch (const Failure& failure) {
      fail(failure.what());
    }
    count_lines(inner);
    at_ = end + 1;
  }

  void operator_token(std::string& open_brackets) {
    static constexpr std::array<std::string_view, 26> kOperators = {
        "//", "**", "==", "!=", ">=", "<=", "+", "-", "/", "*", "%", "~", "[",
        "]",  "(",  ")",  "{",  "}",  ">",  "<", "=", ".", ":", "|", ",", ";"};
    const auto op = std::find_if(kOperators.begin(), kOperators.end(),
                                 [&](std::string_view o) { return text_.substr(at_, o.size()) == o; });
    if (op == kOperators.end()) fail("unexpected character '" + std::string(1, text_[at_]) + "'");
    if (*op == "{") open_brackets += '}';
    if (*op == "(") open_brackets += ')';
    if (*op == "[") open_brackets += ']';
    if (*op == "}" || *op == ")" || *op == "]") {
      if (open_brackets.empty()) fail("unexpected '" + std::string(*op) + "'");
      if (open_brackets.back() != op->front()) {
        fail("unexpected '" + std::string(*op) + "', expected '" + open_brackets.back() + "'");
      }
      open_brackets.pop_back();
    }
    push(Token::Type::op, *op);
    at_ += op->size();
  }

  // Skips the white space that the tag's sign removes. REQUIRES: at_ is right after %}, }} or #}.
  void after_tag(char sign, bool trim_newline) {
    const std::size_t start = at_;
    if (sign == '-') {
      at_ = skip_space(at_);
    } else if (sign != '+' && trim_newline && at_ < text_.size() && text_[at_] == '\n') {
      ++at_;
    }
    count_lines(text_.substr(start, at_ - start));
    line_starting_ = at_ > start && text_[at_ - 1] == '\n';
  }

  std::size_t skip_space(std::size_t at) const {
    if (at >= text_.size()) return text_.size();
    return text_.size() - strip(text_.substr(at), Side::left).size();
  }

  void count_lines(std::string_view piece) {
    line_ += static_cast<int>(std::count(piece.begin(), piece.end(), '\n'));
  }

  void push(Token::Type type, std::string_view text) {
    if (type == Token::Type::data && text.empty()) return;
    tokens_.push_back({type, line_, std::string(text), 0, 0});
  }

  [[noreturn]] void fail(const std::string& reason) const { throw TemplateError(line_, reason); }

  std::string source_;
  std::string_view text_;
  std::size_t at_ = 0;
  int line_ = 1;
  bool line_starting_ = true;  // true if the last tag ended with a newline or nothing has been read yet
  std::vector<Token> tokens_;
};

}  // namespace

std::vector<Token> tokenize(std::string_view source) { return Lexer(source).run(); }

}  // namespace hearth::jinja
