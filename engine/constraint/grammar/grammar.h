// A language of byte strings, defined by rules that consist of expressions, as in a context-free grammar.
// Regular expressions (../regex/regex.h), GBNF (gbnf.h) and JSON schemas (../schema/json_schema.h) are
// translated to this form. Constraint (constraint.h) compiles a grammar for a vocabulary.
//
// An expression is the number of a node that the grammar owns. Nodes never change, so one expression may be
// used in several places. One thread.
#pragma once

#include <bitset>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/constraint/constraint_error.h"

namespace hearth {

using ByteSet = std::bitset<256>;
/// byte_set() returns the set of bytes that occur in a text, byte_range() the set of bytes from first to
/// last.
ByteSet byte_set(std::string_view text);
ByteSet byte_range(char first, char last);

/// First and last code point, both inclusive.
using CharRange = std::pair<char32_t, char32_t>;

class Grammar {
 public:
  enum class Expr : int32_t {};
  enum class Rule : int32_t {};
  static constexpr int kNoMaximum = -1;

  // These functions create expressions. Each throws ConstraintError if the grammar becomes too large
  // (kMaxNodes).
  Expr empty();    // the empty string alone
  Expr nothing();  // no string at all
  Expr literal(std::string_view bytes);
  Expr byte(const ByteSet& set);                      // one byte
  Expr character(std::span<const CharRange> ranges);  // one code point, as UTF-8; surrogates are ignored
  Expr sequence(std::span<const Expr> parts);         // nothing() if any part is nothing()
  Expr choice(std::span<const Expr> options);         // nothing() if all options are nothing()
  Expr repeat(Expr what, int least, int most);        // most: kNoMaximum for any number
  Expr sequence(std::initializer_list<Expr> parts) { return sequence({parts.begin(), parts.size()}); }
  Expr choice(std::initializer_list<Expr> options) { return choice({options.begin(), options.size()}); }
  Expr optional(Expr what) { return repeat(what, 0, 1); }
  Expr any_number(Expr what) { return repeat(what, 0, kNoMaximum); }
  Expr call(Rule rule);
  // both() returns the strings that a and b both match, except() the strings that a matches and b does not.
  // Neither a nor b may contain calls.
  Expr both(Expr a, Expr b);
  Expr except(Expr a, Expr b);

  /// Declares a rule without a body, so that other rules can call it before it is defined. The name is for
  /// messages.
  Rule declare(std::string name);
  void define(Rule rule, Expr body);  // REQUIRES: not defined before
  void set_root(Rule rule);

  struct Node {
    enum class Kind : uint8_t {
      kEmpty,
      kNothing,
      kBytes,
      kSet,
      kSequence,
      kChoice,
      kRepeat,
      kCall,
      kBoth,
      kExcept
    };
    Kind kind;
    // The meaning of the numbers depends on the kind. kBytes: the bytes are [first, first + count) of bytes_.
    // kSet: the set is sets_[first]. kSequence, kChoice, kBoth, kExcept: the parts are [first, first + count)
    // of children_. kRepeat: the part is children_[first], repeated from least to most times. kCall: `first`
    // is the number of the rule.
    int32_t first = 0, count = 0;
    int32_t least = 0, most = 0;
  };
  static constexpr size_t kMaxNodes = 400'000;

  // Read access, for the compiler.
  const Node& node(Expr expr) const { return nodes_[static_cast<size_t>(expr)]; }
  bool is_nothing(Expr expr) const { return node(expr).kind == Node::Kind::kNothing; }
  std::string_view bytes(const Node& node) const;          // for kBytes
  const ByteSet& set(const Node& node) const;              // for kSet
  std::span<const Expr> children(const Node& node) const;  // for kSequence, kChoice, kRepeat, kBoth, kExcept
  Rule callee(const Node& node) const { return static_cast<Rule>(node.first); }  // for kCall
  size_t n_nodes() const { return nodes_.size(); }
  size_t n_rules() const { return rules_.size(); }
  const std::string& name(Rule rule) const { return rules_[static_cast<size_t>(rule)].name; }
  /// Throws ConstraintError if the rule is called but was never defined; the message names the rule.
  Expr body(Rule rule) const;
  /// REQUIRES: set_root was called.
  Rule root() const { return root_; }

 private:
  struct RuleEntry {
    std::string name;
    Expr body;
    bool defined;
  };

  Expr add(Node node);
  Expr add_parents(Node::Kind kind, std::span<const Expr> children, int least, int most);

  std::vector<Node> nodes_;
  std::string bytes_;
  std::vector<ByteSet> sets_;
  std::vector<Expr> children_;
  std::vector<RuleEntry> rules_;
  Rule root_{};
};

}  // namespace hearth
