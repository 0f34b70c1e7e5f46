#include "engine/constraint/schema/json_text.h"

#include <algorithm>
#include <vector>

#include "engine/constraint/grammar/character_set.h"
#include "engine/constraint/schema/numbers/numbers.h"
#include "kernels/base/utf8.h"

namespace hearth {
namespace {

using Expr = Grammar::Expr;

constexpr int kMaxIndent = 40;

/// Returns the character after the backslash if c has a short escape, else 0.
char short_escape(char32_t c) {
  switch (c) {
    case U'"':
      return '"';
    case U'\\':
      return '\\';
    case U'\b':
      return 'b';
    case U'\f':
      return 'f';
    case U'\n':
      return 'n';
    case U'\r':
      return 'r';
    case U'\t':
      return 't';
    default:
      return '\0';
  }
}

char hex_character(char32_t digit) { return "0123456789abcdef"[digit]; }

/// The characters that may be unescaped in a string.
const CharacterSet& unescaped() {
  static const CharacterSet set{{0x20, 0x21}, {0x23, 0x5B}, {0x5D, kLastCodePoint}};
  return set;
}

/// The characters of names that need no marks in StringForm::kMarked.
const CharacterSet& of_words() {
  static const CharacterSet set{{U'$', U'$'}, {U'-', U'.'}, {U'0', U'9'},          {U'A', U'Z'},
                                {U'_', U'_'}, {U'a', U'z'}, {0xC0, kLastCodePoint}};
  return set;
}

const CharacterSet& escaped() {
  static const CharacterSet set = complement(unescaped());
  return set;
}

void append_json(std::string& out, char32_t c) {
  if (!contains(escaped(), c)) {
    append_utf8(c, out);
  } else if (const char letter = short_escape(c); letter != '\0') {
    out.append({'\\', letter});
  } else {
    out.append({'\\', 'u', '0', '0', hex_character(c >> 4), hex_character(c & 0xF)});
  }
}

/// Adds the escape sequences of the characters in `set` to `options`. REQUIRES: `set` is a subset of
/// escaped().
void add_escapes(Grammar& grammar, std::span<const CharRange> set, std::vector<Expr>& options) {
  ByteSet letters;
  ByteSet low_digits[2];  // last hex digits of \u000X and \u001X, in lower case
  for (const auto& [first, last] : set)
    for (char32_t c = first; c <= last && c <= U'\\'; ++c) {
      if (!contains(escaped(), c)) continue;
      if (const char letter = short_escape(c); letter != '\0')
        letters.set(static_cast<unsigned char>(letter));
      else
        low_digits[c >> 4].set(static_cast<unsigned char>(hex_character(c & 0xF)));
    }
  const auto add = [&](std::string_view begin, const ByteSet& rest) {
    if (rest.none()) return;
    options.push_back(grammar.sequence({grammar.literal(begin), grammar.byte(rest)}));
  };
  add("\\", letters);
  add("\\u000", low_digits[0]);
  add("\\u001", low_digits[1]);
}

}  // namespace

Expr json_characters(Grammar& grammar, std::span<const CharRange> set) {
  const CharacterSet sorted(set.begin(), set.end());
  std::vector<Expr> options;
  options.push_back(grammar.character(intersection(sorted, unescaped())));
  add_escapes(grammar, intersection(sorted, escaped()), options);
  return grammar.choice(options);
}

std::string json_quoted(std::string_view text) {
  std::string out = "\"";
  for (const char32_t c : code_points(text)) append_json(out, c);
  return out + '"';
}

Expr JsonText::character() {
  if (!character_) character_ = characters(all_characters());
  return *character_;
}

Expr JsonText::characters(std::span<const CharRange> set) {
  return is_json() ? json_characters(grammar_, set) : grammar_.character(set);
}

Expr JsonText::quoted(Expr characters) {
  switch (form_) {
    case StringForm::kJson:
      return sequence({text("\""), characters, text("\"")});
    case StringForm::kPlain:
      return characters;
    case StringForm::kMarked:
      break;
  }
  const Expr any = grammar_.any_number(grammar_.character(all_characters()));
  return sequence({text(mark_), grammar_.except(characters, sequence({any, text(mark_), any})), text(mark_)});
}

Expr JsonText::constant(std::string_view string) {
  if (form_ == StringForm::kMarked)
    return string.find(mark_) == std::string_view::npos ? text(mark_ + std::string(string) + mark_)
                                                        : grammar_.nothing();
  return text(is_json() ? json_quoted(string) : string);
}

Expr JsonText::name(std::string_view name) {
  const bool is_word =
      form_ == StringForm::kMarked && !name.empty() &&
      std::ranges::all_of(code_points(name), [](char32_t c) { return contains(of_words(), c); });
  return is_word ? text(name) : constant(name);
}

Expr JsonText::any_name() {
  if (form_ != StringForm::kMarked) return string();
  return grammar_.repeat(grammar_.character(of_words()), 1, Grammar::kNoMaximum);
}

Expr JsonText::free_name() { return form_ == StringForm::kMarked ? any_name() : free_string(); }

Expr JsonText::string() { return quoted(grammar_.any_number(character())); }

Expr JsonText::hex_digit() { return grammar_.byte(byte_set("0123456789abcdefABCDEF")); }

/// Returns any JSON escape sequence. Surrogates occur only in pairs.
Expr JsonText::escapes() {
  const Expr hex = hex_digit(), two_hex = grammar_.repeat(hex, 2, 2), three_hex = grammar_.repeat(hex, 3, 3);
  const Expr plain =
      choice({sequence({grammar_.byte(byte_set("0123456789abcefABCEF")), three_hex}),
              sequence({grammar_.byte(byte_set("dD")), grammar_.byte(byte_set("01234567")), two_hex})});
  const Expr pair =
      sequence({grammar_.byte(byte_set("dD")), grammar_.byte(byte_set("89abAB")), two_hex, text("\\u"),
                grammar_.byte(byte_set("dD")), grammar_.byte(byte_set("cdefCDEF")), two_hex});
  return sequence({text("\\"), choice({grammar_.byte(byte_set("\"\\/bfnrt")),
                                       sequence({text("u"), choice({plain, pair})})})});
}

Expr JsonText::free_string() {
  if (!free_string_) {
    free_string_ = grammar_.declare("string");
    const Expr any = is_json() ? choice({grammar_.character(unescaped()), escapes()}) : character();
    grammar_.define(*free_string_, quoted(grammar_.any_number(any)));
  }
  return grammar_.call(*free_string_);
}

Expr JsonText::gap() {
  if (form_ == StringForm::kMarked) return grammar_.empty();
  if (!gap_) {
    gap_ = grammar_.declare("white space");
    const Expr line = sequence({text("\n"), grammar_.repeat(text(" "), 0, kMaxIndent)});
    grammar_.define(*gap_, choice({grammar_.empty(), text(" "), line}));
  }
  return grammar_.call(*gap_);
}

Expr JsonText::comma() { return sequence({text(","), gap()}); }

Expr JsonText::colon() {
  return form_ == StringForm::kMarked ? text(":") : sequence({text(":"), optional(text(" "))});
}

Expr JsonText::list(std::string_view open, Expr item, std::string_view close) {
  const Expr more = grammar_.any_number(sequence({comma(), item}));
  return sequence({text(open), optional(sequence({gap(), item, more, gap()})), text(close)});
}

Expr JsonText::object() {
  if (!object_) {
    object_ = grammar_.declare("object");
    grammar_.define(*object_, list("{", sequence({free_name(), colon(), value()}), "}"));
  }
  return grammar_.call(*object_);
}

Expr JsonText::array() {
  if (!array_) {
    array_ = grammar_.declare("array");
    grammar_.define(*array_, list("[", value(), "]"));
  }
  return grammar_.call(*array_);
}

Expr JsonText::value() {
  if (!value_) {
    value_ = grammar_.declare("value");
    grammar_.define(*value_, choice({object(), array(), free_string(), number_expression(grammar_, {}),
                                     text("true"), text("false"), text("null")}));
  }
  return grammar_.call(*value_);
}

}  // namespace hearth
