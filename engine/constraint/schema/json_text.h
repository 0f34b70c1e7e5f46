// Defines how JSON is written under a constraint: strings, white space, and unconstrained values.
//
// In a string, only '"', '\' and control characters are escaped, with JSON's short escape if there is one,
// else as \u00XX. So a string can be written in only one way, and strings can be compared as written.
// Unconstrained strings (free_string) are an exception and may have any escape. Between the parts of objects
// and arrays there may be no white space, one space, or a new line with at most 40 spaces. After ':' there
// may be one space. One thread.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "engine/constraint/grammar/grammar.h"

namespace hearth {

enum class StringForm {
  kJson,
  kPlain,  // strings have no quotes or escapes; they are not a part of JSON
  /// Strings stand between two marks, without escapes, and do not contain the mark. Names of members are
  /// words without quotes if they can be. There is no white space. Gemma 4 writes calls in this notation.
  kMarked,
};

/// A CharacterWriter. Returns the expression for one character of a set, written as in a JSON string.
Grammar::Expr json_characters(Grammar& grammar, std::span<const CharRange> set);
/// Returns a text as a JSON string with quotes. REQUIRES: text is well-formed UTF-8.
std::string json_quoted(std::string_view text);

/// Creates expressions for one grammar. The rules that several expressions use are defined only once.
class JsonText {
 public:
  /// string_mark: for kMarked.
  JsonText(Grammar& grammar, StringForm form, std::string_view string_mark = {})
      : grammar_(grammar), form_(form), mark_(string_mark) {}
  bool is_json() const { return form_ == StringForm::kJson; }

  // Each function of this group returns a call of a rule.
  Grammar::Expr free_string();  // any string, with any escapes
  Grammar::Expr free_name();    // any name of a member
  Grammar::Expr value();        // any JSON value
  Grammar::Expr object();
  Grammar::Expr array();
  Grammar::Expr gap();  // white space inside brackets

  // The functions of this group return expressions without calls. Grammar::both() and except() accept only
  // such expressions.
  Grammar::Expr character();  // any character of a string
  Grammar::Expr characters(std::span<const CharRange> set);
  Grammar::Expr string();    // any string; each string can be written in one way only
  Grammar::Expr any_name();  // like string(), for the name of a member
  Grammar::Expr constant(std::string_view string);
  Grammar::Expr name(std::string_view name);  // this name of a member
  Grammar::Expr quoted(Grammar::Expr characters);
  Grammar::Expr colon();

  /// Returns `open`, any number of items separated by commas (possibly none), and `close`.
  Grammar::Expr list(std::string_view open, Grammar::Expr item, std::string_view close);
  Grammar::Expr text(std::string_view bytes) { return grammar_.literal(bytes); }
  Grammar::Expr sequence(std::initializer_list<Grammar::Expr> parts) { return grammar_.sequence(parts); }
  Grammar::Expr choice(std::initializer_list<Grammar::Expr> options) { return grammar_.choice(options); }
  Grammar::Expr optional(Grammar::Expr what) { return grammar_.optional(what); }
  /// Returns "," and the white space before the next item.
  Grammar::Expr comma();

 private:
  Grammar::Expr hex_digit();
  Grammar::Expr escapes();

  Grammar& grammar_;
  StringForm form_;
  std::string mark_;
  std::optional<Grammar::Rule> free_string_, value_, object_, array_, gap_;
  std::optional<Grammar::Expr> character_;
};

}  // namespace hearth
