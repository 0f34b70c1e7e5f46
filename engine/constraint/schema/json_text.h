// How JSON is written under a constraint: strings, white space, and values that nothing is said of.
//
// A character of a string is written as itself; only '"', '\' and control characters are escaped, by JSON's short escape where
// there is one and as \u00XX otherwise. So a text has one spelling, and texts can be compared as they are written. Only the
// strings that nothing is said of (free_string) may have any escape. One thread.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "engine/constraint/grammar/grammar.h"

namespace hearth {

/// White space between the parts of objects and arrays.
enum class JsonSpacing {
  kFree,     // nothing, one space, or a new line with at most 40 spaces; behind ':' nothing or one space
  kOneLine,  // exactly one space behind ',' and ':'
};

/// One character of a set as a JSON string has it: a CharacterWriter.
Grammar::Expr json_characters(Grammar& grammar, std::span<const CharRange> set);
/// A text as a JSON string with its quotes. REQUIRES: text is well-formed UTF-8.
std::string json_quoted(std::string_view text);

/// Makes expressions for one grammar, each once.
class JsonText {
 public:
  JsonText(Grammar& grammar, JsonSpacing spacing) : grammar_(grammar), spacing_(spacing) {}

  // Calls of rules.
  Grammar::Expr free_string();  // any string, with any escapes
  Grammar::Expr value();        // any JSON value
  Grammar::Expr object();
  Grammar::Expr array();
  Grammar::Expr gap();  // white space inside of brackets

  // Without calls, so that they may be intersected.
  Grammar::Expr character();  // any character of a string
  Grammar::Expr string();     // any string, in its one spelling
  Grammar::Expr quoted(Grammar::Expr characters);
  Grammar::Expr colon();

  /// open item (, item)* close, of one rule of items; with at least one item, or with none too.
  Grammar::Expr list(std::string_view open, Grammar::Expr item, std::string_view close);
  Grammar::Expr text(std::string_view bytes) { return grammar_.literal(bytes); }
  Grammar::Expr sequence(std::initializer_list<Grammar::Expr> parts) {
    return grammar_.sequence(std::span(parts.begin(), parts.size()));
  }
  Grammar::Expr choice(std::initializer_list<Grammar::Expr> options) {
    return grammar_.choice(std::span(options.begin(), options.size()));
  }
  Grammar::Expr optional(Grammar::Expr what) { return grammar_.repeat(what, 0, 1); }
  /// "," and what follows it until the next item.
  Grammar::Expr comma();

 private:
  Grammar::Expr hex_digit();
  Grammar::Expr escapes();

  Grammar& grammar_;
  JsonSpacing spacing_;
  std::optional<Grammar::Rule> free_string_, value_, object_, array_, gap_;
  std::optional<Grammar::Expr> character_;
};

}  // namespace hearth
