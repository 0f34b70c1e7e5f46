// How JSON is written under a constraint: strings, white space, and values that nothing is said of.
//
// A character of a string is written as itself; only '"', '\' and control characters are escaped, by JSON's short escape where
// there is one and as \u00XX otherwise. So a text has one spelling, and texts can be compared as they are written. Only the
// strings that nothing is said of (free_string) may have any escape. White space between the parts of objects and arrays is
// nothing, one space, or a new line with at most 40 spaces; behind ':' nothing or one space. One thread.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "engine/constraint/grammar/grammar.h"

namespace hearth {

/// How strings are written. Plain ones have no quotes and no escapes, for a string that stands alone.
enum class StringForm { kJson, kPlain };

/// One character of a set as a JSON string has it: a CharacterWriter.
Grammar::Expr json_characters(Grammar& grammar, std::span<const CharRange> set);
/// A text as a JSON string with its quotes. REQUIRES: text is well-formed UTF-8.
std::string json_quoted(std::string_view text);

/// Makes expressions for one grammar, each once.
class JsonText {
 public:
  JsonText(Grammar& grammar, StringForm form) : grammar_(grammar), form_(form) {}
  bool is_plain() const { return form_ == StringForm::kPlain; }

  // Calls of rules.
  Grammar::Expr free_string();  // any string, with any escapes
  Grammar::Expr value();        // any JSON value
  Grammar::Expr object();
  Grammar::Expr array();
  Grammar::Expr gap();  // white space inside of brackets

  // Without calls, so that they may be intersected.
  Grammar::Expr character();  // any character of a string
  Grammar::Expr characters(std::span<const CharRange> set);
  Grammar::Expr string();  // any string, in its one spelling
  Grammar::Expr constant(std::string_view string);
  Grammar::Expr quoted(Grammar::Expr characters);
  Grammar::Expr colon();

  /// open item (, item)* close, of one rule of items; with at least one item, or with none too.
  Grammar::Expr list(std::string_view open, Grammar::Expr item, std::string_view close);
  Grammar::Expr text(std::string_view bytes) { return grammar_.literal(bytes); }
  Grammar::Expr sequence(std::initializer_list<Grammar::Expr> parts) { return grammar_.sequence(parts); }
  Grammar::Expr choice(std::initializer_list<Grammar::Expr> options) { return grammar_.choice(options); }
  Grammar::Expr optional(Grammar::Expr what) { return grammar_.optional(what); }
  /// "," and what follows it until the next item.
  Grammar::Expr comma();

 private:
  Grammar::Expr hex_digit();
  Grammar::Expr escapes();

  Grammar& grammar_;
  StringForm form_;
  std::optional<Grammar::Rule> free_string_, value_, object_, array_, gap_;
  std::optional<Grammar::Expr> character_;
};

}  // namespace hearth
