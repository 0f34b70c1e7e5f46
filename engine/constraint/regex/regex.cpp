#include "engine/constraint/regex/regex.h"

#include <algorithm>
#include <map>
#include <vector>

namespace hearth {
namespace {

using Expr = Grammar::Expr;
using Kind = RegexNode::Kind;

/// Translates a regex tree to grammar expressions. If the match may be anywhere in the text, the expression
/// at the pattern's left edge also matches any text before the match, and the expression at the right edge
/// also matches any text after it. An anchor at an edge forbids such text, so the translation omits the text
/// there.
class Translator {
 public:
  Translator(Grammar& grammar, const CharacterWriter& writer, RegexMatch match)
      : grammar_(grammar), writer_(writer), match_(match) {}

  Expr expression(const RegexNode& node, bool first, bool last) {
    switch (node.kind) {
      case Kind::kSequence:
        return sequence(node.children, first, last);
      case Kind::kChoice:
        return choice(node, first, last);
      case Kind::kStart:
      case Kind::kEnd:
        refuse_inner_anchor(node);
        break;
      case Kind::kRepeat:
        if (node.least == 1 && node.most == 1) return expression(node.children[0], first, last);
        return extended(grammar_.repeat(expression(node.children[0], false, false), node.least, node.most),
                        first, last);
      case Kind::kCharacter:
        break;
    }
    return extended(character(node.characters), first, last);
  }

 private:
  Expr choice(const RegexNode& node, bool first, bool last) {
    std::vector<Expr> options;
    for (const RegexNode& child : node.children) options.push_back(expression(child, first, last));
    return grammar_.choice(options);
  }

  /// Drops the anchors at the edges of the sequence. At an edge that had an anchor, the expression allows no
  /// text outside the match.
  Expr sequence(std::span<const RegexNode> items, bool first, bool last) {
    bool open_first = first, open_last = last;
    for (; first && !items.empty() && items.front().kind == Kind::kStart; open_first = false)
      items = items.subspan(1);
    for (; last && !items.empty() && items.back().kind == Kind::kEnd; open_last = false)
      items = items.first(items.size() - 1);
    if (items.empty()) return open_first || open_last ? outside() : grammar_.empty();
    std::vector<Expr> parts;
    for (size_t i = 0; i < items.size(); ++i) {
      refuse_inner_anchor(items[i]);
      parts.push_back(expression(items[i], open_first && i == 0, open_last && i + 1 == items.size()));
    }
    return grammar_.sequence(parts);
  }

  static void refuse_inner_anchor(const RegexNode& node) {
    if (node.kind == Kind::kStart || node.kind == Kind::kEnd)
      refuse_regex(node,
                   "An anchor is supported only at an end of the pattern or of one of its alternatives.");
  }

  Expr extended(Expr inner, bool first, bool last) {
    if (match_ == RegexMatch::kWhole) return inner;
    std::vector<Expr> parts;
    if (first) parts.push_back(outside());
    parts.push_back(inner);
    if (last) parts.push_back(outside());
    return grammar_.sequence(parts);
  }

  /// Returns the text that may be before or after a match.
  Expr outside() {
    if (match_ == RegexMatch::kWhole) return grammar_.empty();
    return grammar_.any_number(character(all_characters()));
  }

  Expr character(const CharacterSet& set) {
    const auto known = written_.find(set);
    if (known != written_.end()) return known->second;
    return written_[set] = writer_(grammar_, set);
  }

  Grammar& grammar_;
  const CharacterWriter& writer_;
  RegexMatch match_;
  std::map<CharacterSet, Expr> written_;
};

/// Follows all possible matches of a node at once. Given the set of positions in the text where a match may
/// begin, computes the set of positions where a match may end.
class Matcher {
 public:
  Matcher(std::u32string_view text, const std::function<void(size_t)>& take_work)
      : text_(text), take_work_(take_work) {}
  using Places = std::vector<bool>;  // [text.size() + 1]

  Places ends(const RegexNode& node, Places from) const {
    take_work_(from.size());
    switch (node.kind) {
      case Kind::kCharacter:
        return after_character(node.characters, from);
      case Kind::kSequence:
        for (const RegexNode& child : node.children) from = ends(child, std::move(from));
        return from;
      case Kind::kChoice: {
        Places all(from.size());
        for (const RegexNode& child : node.children) add(all, ends(child, from));
        return all;
      }
      case Kind::kRepeat:
        return after_repeat(node, std::move(from));
      case Kind::kStart:
        std::fill(from.begin() + 1, from.end(), false);
        return from;
      case Kind::kEnd:
        std::fill(from.begin(), from.end() - 1, false);
        return from;
    }
    return from;
  }

 private:
  Places after_character(const CharacterSet& set, const Places& from) const {
    Places to(from.size());
    for (size_t i = 0; i < text_.size(); ++i) to[i + 1] = from[i] && contains(set, text_[i]);
    return to;
  }

  Places after_repeat(const RegexNode& node, Places from) const {
    for (int i = 0; i < node.least; ++i) from = ends(node.children[0], std::move(from));
    Places all = from;
    for (int i = node.least; node.most == Grammar::kNoMaximum || i < node.most; ++i) {
      from = ends(node.children[0], std::move(from));
      if (!add(all, from)) break;  // further repeats would reach the same positions
    }
    return all;
  }

  /// Returns whether any position was new.
  static bool add(Places& all, const Places& more) {
    bool is_new = false;
    for (size_t i = 0; i < all.size(); ++i) {
      is_new = is_new || (more[i] && !all[i]);
      all[i] = all[i] || more[i];
    }
    return is_new;
  }

  std::u32string_view text_;
  const std::function<void(size_t)>& take_work_;
};

}  // namespace

Grammar::Expr regex_expression(Grammar& grammar, std::string_view pattern, const CharacterWriter& writer,
                               RegexMatch match) {
  return Translator(grammar, writer, match).expression(parse_regex(pattern), true, true);
}

Grammar regex_grammar(std::string_view pattern) {
  Grammar grammar;
  const CharacterWriter as_utf8 = [](Grammar& g, std::span<const CharRange> set) { return g.character(set); };
  const Grammar::Rule root = grammar.declare("root");
  grammar.define(root, regex_expression(grammar, pattern, as_utf8, RegexMatch::kWhole));
  grammar.set_root(root);
  return grammar;
}

bool regex_matches(const RegexNode& regex, std::u32string_view text, RegexMatch match,
                   const std::function<void(size_t)>& take_work) {
  Matcher::Places from(text.size() + 1, match == RegexMatch::kSomewhere);
  from[0] = true;
  const Matcher::Places to = Matcher(text, take_work).ends(regex, from);
  return match == RegexMatch::kWhole ? to.back() : std::find(to.begin(), to.end(), true) != to.end();
}

}  // namespace hearth
